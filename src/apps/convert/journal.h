// The journal of a conversion: which tensors stand whole in the output, so that a killed conversion
// goes on where it was.
//
// A text file in the output folder, one JSON object a line. The first names the conversion by its
// fingerprint (source, options, layout); each further one a tensor that is written, with the hash
// of its bytes. Lines are only ever appended; one that a crash cut short is ignored. Nothing in the
// journal is believed: a resumed conversion hashes each tensor again where it was written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "format/quant_error.h"

namespace picchio {

class Journal {
 public:
  struct Entry {
    Sha256Digest sha256;
    QuantError error;
  };

  // Opens or creates the journal at `path` and locks it; kUnavailable if another process has it.
  // The folder has a lock of its own, which some file systems do not know. kInvalidArgument for a
  // journal of another fingerprint: hours of work may stand behind it. One that a crash cut short
  // in its first line speaks of nothing and is started afresh.
  static Result<Journal> Open(const Path& path, std::string_view fingerprint);

  Journal(Journal&&) = default;

  // What an earlier run recorded, by tensor name.
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }

  // Appends a tensor. One thread at a time.
  Status Record(std::string_view tensor, const Entry& entry);

 private:
  Journal(File file, uint64_t end) : file_(std::move(file)), end_(end) {}

  File file_;
  uint64_t end_;  // Where the next line goes.
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace picchio
