// Programs that stand in for `picchio run`: shell scripts.
#pragma once

#include <filesystem>
#include <string>

#include "support/test_support.h"

namespace picchio {

// A script with these lines, ready to be run; $0's folder is where it may keep what it counts.
inline Path FakeProgram(const TemporaryFolder& folder, const std::string& lines) {
  const Path path = folder / "fake";
  WriteAll(path, "#!/bin/sh\n" + lines);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

// The report of a run with these ids and rates, as `picchio run --json` writes it.
inline std::string FakeReport(const std::string& ids, const std::string& decode_rate,
                              const std::string& prefill_rate = "50") {
  return "{\"text\": \"x\", \"prompt_tokens\": 5, \"ids\": [" + ids +
         "], \"finish_reason\": \"max_tokens\", \"stats\": {\"prompt\": {\"tokens_per_second\": " +
         prefill_rate +
         ", \"moe_seconds\": 1, \"storage_wait_seconds\": 0, \"hits\": 0, \"misses\": 0, "
         "\"read_bytes\": 0}, \"decode\": {\"tokens_per_second\": " +
         decode_rate +
         ", \"moe_seconds\": 2.5, \"storage_wait_seconds\": 0.5, \"hits\": 30, \"misses\": 10, "
         "\"read_bytes\": 5000000}, \"memory\": {\"peak_resident_bytes\": 1048576}}}";
}

}  // namespace picchio
