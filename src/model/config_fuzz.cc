// config.json and generation_config.json of anyone's making: parsed or refused, and what is parsed
// is within its limits.
#include "model/config.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/expected_tensors.h"
#include "model/generation_config.h"
#include "model/model_sizes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = picchio::ModelConfig::Parse(text, "fuzz");
  if (config.has_value()) {
    PICCHIO_CHECK(config->layers.size() == config->num_hidden_layers);
    PICCHIO_CHECK(config->experts_per_token <= config->num_experts);
    PICCHIO_CHECK(config->num_attention_heads % config->num_key_value_heads == 0);
    const picchio::ModelSizes sizes = picchio::SizesOf(*config);
    PICCHIO_CHECK(sizes.active_parameters <= sizes.total_parameters);
    PICCHIO_CHECK(sizes.total_parameters < uint64_t{1} << 61);
  }
  const auto generation = picchio::GenerationConfig::Parse(text, "fuzz", 1000);
  if (generation.has_value() && config.has_value()) picchio::StopIds(*config, *generation);
  return 0;
}
