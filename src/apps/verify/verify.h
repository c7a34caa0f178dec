// `picchio verify MODEL`: proves that a model folder is whole, to the last bit of every listed
// file.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

struct VerifyReport {
  uint64_t num_tensors = 0;
  uint64_t num_files = 0;  // Stores among them.
  uint64_t num_stores = 0;
  uint64_t bytes = 0;  // Read and hashed.
  double seconds = 0;
  std::string model_id{};
  // Files in the folder that the manifest does not list, sorted: they take no part in the model.
  std::vector<std::string> unlisted{};
  // Stores that the manifest lists and that are not in the folder, sorted: where they hold nothing
  // that is not in the safetensors files as well, that is no fault.
  std::vector<std::string> absent_stores{};
};

// Reads every byte of the model, its stores' too, with `num_threads` threads. Returns the report
// where all is as the manifest says. Otherwise fails with the first fault, in the manifest's order,
// and says how many more there are; damage that keeps the manifest or a file's header from being
// read ends the search.
Result<VerifyReport> VerifyModel(const Path& folder, int num_threads,
                                 const std::atomic<bool>& stop);

}  // namespace picchio
