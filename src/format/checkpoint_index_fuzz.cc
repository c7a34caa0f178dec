#include "format/checkpoint_index.h"

#include <algorithm>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = picchio::ParseCheckpointIndex(text, "input");
  if (!index.has_value()) return 0;
  // Whoever opens these stays in the folder, and finds each tensor's file among them.
  PICCHIO_CHECK(std::is_sorted(index->files.begin(), index->files.end()));
  for (const std::string& file : index->files) {
    PICCHIO_CHECK(!file.empty() && file != ".." && file.find('/') == std::string::npos);
  }
  for (const auto& [tensor, file] : index->tensors) {
    PICCHIO_CHECK(std::binary_search(index->files.begin(), index->files.end(), file));
  }
  return 0;
}
