// model.safetensors.index.json: which shard of a checkpoint holds which tensor.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace picchio {

struct CheckpointIndex {
  std::vector<std::pair<std::string, std::string>> tensors;  // Name and file name, by name bytes.
  std::vector<std::string> files;                            // Sorted, each once; plain names.
};

// `json` is the file's text, `where` what messages call it. File names that are paths are refused:
// nothing outside the checkpoint's folder is ever opened.
Result<CheckpointIndex> ParseCheckpointIndex(std::string_view json, std::string_view where);

}  // namespace picchio
