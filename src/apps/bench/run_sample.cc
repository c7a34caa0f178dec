#include "apps/bench/run_sample.h"

#include "base/json.h"

namespace picchio {
namespace {

constexpr std::string_view kHits = "hits";
constexpr std::string_view kReading = "reading";

constexpr RunMeasure kMeasures[] = {
    {"decode_tokens_per_second", "decode", "tok/s", "decode", "tokens_per_second", 1, true},
    {"prefill_tokens_per_second", "prefill", "tok/s", "prompt", "tokens_per_second", 1, true},
    {"decode_moe_seconds", "decode MoE", "s", "decode", "moe_seconds", 1, false},
    {"decode_read_seconds", "decode reads under way", "s", "decode", kReading, 1, false},
    {"decode_wait_seconds", "decode exposed wait", "s", "decode", "storage_wait_seconds", 1, false},
    {"decode_hits", "decode hits", "%", "decode", kHits, 100, true},
    {"decode_read_bytes", "decode bytes read", "MB", "decode", "read_bytes", 1e-6, false},
    {"prefill_moe_seconds", "prefill MoE", "s", "prompt", "moe_seconds", 1, false},
    {"prefill_read_seconds", "prefill reads under way", "s", "prompt", kReading, 1, false},
    {"prefill_wait_seconds", "prefill exposed wait", "s", "prompt", "storage_wait_seconds", 1,
     false},
    {"prefill_read_bytes", "prefill bytes read", "MB", "prompt", "read_bytes", 1e-6, false},
    {"peak_resident_bytes", "peak memory", "MiB", "memory", "peak_resident_bytes", 0x1p-20, false},
};

std::optional<double> NumberIn(const Json& object, std::string_view field) {
  const auto at = object.find(field);
  if (at == object.end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

std::optional<double> ValueOf(const RunMeasure& measure, const Json& stats) {
  const auto phase = stats.find(measure.phase);
  if (phase == stats.end() || !phase->is_object()) return std::nullopt;
  if (measure.field == kReading) {
    const std::optional<double> hidden = NumberIn(*phase, "hidden_read_seconds");
    const std::optional<double> waited = NumberIn(*phase, "storage_wait_seconds");
    return hidden && waited ? std::optional(*hidden + *waited) : std::nullopt;
  }
  std::optional<double> value = NumberIn(*phase, measure.field);
  if (measure.field == kHits) {
    const std::optional<double> misses = NumberIn(*phase, "misses");
    if (!value || !misses || *value + *misses == 0) return std::nullopt;
    value = *value / (*value + *misses);
  }
  if (value) *value *= measure.scale;
  return value;
}

Status Missing(std::string_view what) {
  return Error(Code::kCorrupt, "the run's report has no {}", what);
}

}  // namespace

std::span<const RunMeasure> RunMeasures() { return kMeasures; }

Result<RunSample> ParseRunSample(std::string_view report) {
  PICCHIO_ASSIGN_OR_RETURN(const Json json, ParseJson(report, "the run's report"));
  if (!json.is_object()) return Missing("object");
  RunSample sample;
  const auto ids = json.find("ids");
  if (ids == json.end() || !ids->is_array()) return Missing("list of ids");
  for (const Json& id : *ids) {
    const std::optional<int64_t> number = WholeNumber(id);
    if (!number || *number < 0 || *number > INT32_MAX) return Missing("list of ids");
    sample.ids.push_back(static_cast<int32_t>(*number));
  }
  if (const auto reason = json.find("finish_reason");
      reason != json.end() && *reason == "cancelled") {
    return Status(Code::kCancelled, "the run was stopped");
  }
  const auto prompt = json.find("prompt_tokens");
  const std::optional<int64_t> tokens = prompt == json.end() ? std::nullopt : WholeNumber(*prompt);
  if (!tokens || *tokens < 1) return Missing("number of prompt tokens");
  sample.prompt_tokens = static_cast<uint64_t>(*tokens);
  const auto stats = json.find("stats");
  if (stats == json.end() || !stats->is_object()) return Missing("stats");
  for (const RunMeasure& measure : kMeasures) sample.values.push_back(ValueOf(measure, *stats));
  for (size_t i = 0; i < 2; ++i) {
    if (!sample.values[i]) return Missing(fmt::format("{} tok/s", kMeasures[i].name));
  }
  return sample;
}

}  // namespace picchio
