// generation_config.json: when a model's authors end a generation, and how they sample.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "model/config.h"

namespace picchio {

// Fields that the file leaves out are absent here too: their defaults are the user interface's
// business. Unknown fields are passed over; known ones must have their type and lie in their range.
struct GenerationConfig {
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> pad_token_id;
  std::optional<bool> do_sample;
  std::optional<double> temperature;         // [0, 100]
  std::optional<uint32_t> top_k;             // 0: all tokens.
  std::optional<double> top_p;               // [0, 1]
  std::optional<double> min_p;               // [0, 1]
  std::optional<double> repetition_penalty;  // [0.01, 100]

  // Token ids must be below `vocab_size` (> 0).
  static Result<GenerationConfig> Parse(std::string_view text, std::string_view where,
                                        uint32_t vocab_size);
  // Reads FOLDER/generation_config.json; all absent where there is no such file.
  static Result<GenerationConfig> Load(const Path& folder, uint32_t vocab_size);
};

// The ids that end a generation: those of both files, ascending, each once.
std::vector<int32_t> StopIds(const ModelConfig& config, const GenerationConfig& generation);

}  // namespace picchio
