#include "model/generation_config.h"

#include <set>
#include <string>

#include "base/units.h"
#include "model/field_reader.h"

namespace picchio {

Result<GenerationConfig> GenerationConfig::Parse(std::string_view text, std::string_view where,
                                                 uint32_t vocab_size) {
  PICCHIO_ASSIGN_OR_RETURN(const Json json, ParseJson(text, where));
  FieldReader fields(json, std::string(where));
  const auto one_id = [&](std::string_view name) -> std::optional<int32_t> {
    const std::vector<int32_t> ids = fields.Ids(name, vocab_size);
    return ids.empty() ? std::nullopt : std::optional(ids.front());
  };
  const auto number = [&](std::string_view name, double min, double max) -> std::optional<double> {
    if (!fields.Has(name)) return std::nullopt;
    return fields.NumberOr(min, name, min, max);
  };
  GenerationConfig config;
  config.eos_token_ids = fields.Ids("eos_token_id", vocab_size);
  config.bos_token_id = one_id("bos_token_id");
  config.pad_token_id = one_id("pad_token_id");
  if (fields.Has("do_sample")) config.do_sample = fields.FlagOr(false, "do_sample");
  if (fields.Has("top_k")) config.top_k = fields.CountOr(0, {"top_k"}, 0, UINT32_MAX);
  config.temperature = number("temperature", 0, 100);
  config.top_p = number("top_p", 0, 1);
  config.min_p = number("min_p", 0, 1);
  config.repetition_penalty = number("repetition_penalty", 0.01, 100);
  PICCHIO_RETURN_IF_ERROR(fields.status());
  return config;
}

Result<GenerationConfig> GenerationConfig::Load(const Path& folder, uint32_t vocab_size) {
  const Path path = folder / "generation_config.json";
  if (!SomethingExists(path)) return GenerationConfig{};
  PICCHIO_ASSIGN_OR_RETURN(const std::string text, ReadFileToString(path, 1_MiB));
  return Parse(text, PathText(path), vocab_size);
}

std::vector<int32_t> StopIds(const ModelConfig& config, const GenerationConfig& generation) {
  std::set<int32_t> ids(config.eos_token_ids.begin(), config.eos_token_ids.end());
  ids.insert(generation.eos_token_ids.begin(), generation.eos_token_ids.end());
  return {ids.begin(), ids.end()};
}

}  // namespace picchio
