// What one `picchio run --json` says of itself, as the figures that `picchio bench run` compares.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace picchio {

// A figure of a run. Rates and shares are better higher, all else lower.
struct RunMeasure {
  std::string_view key;  // Of our own report: "decode_tokens_per_second".
  std::string_view name;
  std::string_view unit;
  std::string_view phase;  // "prompt", "decode" or "memory" of the run's report.
  // There; "hits" stands for the share of demands that hit, "reading" for the time that reads were
  // under way, waited for or not.
  std::string_view field;
  double scale;  // From the field to the unit.
  bool higher_is_better;
};
std::span<const RunMeasure> RunMeasures();

struct RunSample {
  std::vector<int32_t> ids{};
  uint64_t prompt_tokens = 0;
  // By RunMeasures(); none where the run's report has no such field (those of later versions).
  std::vector<std::optional<double>> values{};
};

// Fails with kCorrupt where the text is no such report, naming what is missing, and with kCancelled
// where the run says that it was stopped.
Result<RunSample> ParseRunSample(std::string_view report);

}  // namespace picchio
