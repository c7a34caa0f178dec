// The small files that come along with a checkpoint, as published: config, tokenizer, chat
// template.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "model/config.h"

namespace picchio {

struct Companion {
  std::string name;
  std::string bytes;
};

struct Companions {
  std::vector<Companion> files;
  std::vector<std::string> notes;  // What is missing and what that means, a sentence each.
};

// Reads those that are there and checks those that the engine will need: generation_config.json
// must be well formed, and the tokenizer must fit the model's vocabulary.
Result<Companions> ReadCompanions(const Path& checkpoint_folder, const ModelConfig& config);

}  // namespace picchio
