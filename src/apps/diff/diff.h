// `picchio diff STORE MODEL`: proves that a store has the experts of a model, byte for byte.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

struct DiffReport {
  uint64_t num_records = 0;      // Compared: those that the store has.
  uint64_t num_all_records = 0;  // That the model has.
  uint64_t bytes = 0;            // Of the store's records.
  // The model has its experts in a store alone: compared were the SHA-256 of each tensor, as the
  // manifest lists them, and not the bytes. Biases and padding are compared byte for byte always.
  bool by_hash = false;
  double seconds = 0;
};

// Compares every record of the store with the model's safetensors files, by `num_threads` threads.
// Fails with kCorrupt and the first difference: expert, tensor, byte, and both values. The index
// must be whole; its hashes are not asked (picchio verify does that).
Result<DiffReport> DiffStore(const Path& store, const Path& model_folder, int num_threads,
                             const std::atomic<bool>& stop);

}  // namespace picchio
