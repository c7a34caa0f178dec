// `picchio verify --repair`: damaged records of a store, written anew from the safetensors files.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

struct RepairReport {
  uint64_t num_records = 0;   // That the store has.
  uint64_t num_repaired = 0;  // Of them.
};

// Checks the store and writes each damaged record in its place, where the model's safetensors files
// give the bytes whose hash the index has; then reads it back from the disk. Superblock and index
// are never written: where they are wrong there is no telling what the records should be, and the
// store must be packed again. A repair that is killed leaves a record that is still damaged, for
// the next one. Fails where a record could not be repaired, or the dense image is damaged, after
// all (other) records were; and with kUnavailable where another process packs or repairs the store.
Result<RepairReport> RepairStore(const Path& store, const Path& model_folder, int num_threads,
                                 const std::atomic<bool>& stop);

// The same of a store that is open for update, and was at `store` then.
Result<RepairReport> RepairStore(File& file, const Path& store, const Path& model_folder,
                                 int num_threads, const std::atomic<bool>& stop);

// What can be done about a store that is damaged, as the end of a message: by `only_records`
// whether its index is whole, and by whether this model folder has its experts elsewhere.
std::string StoreRemedy(const Path& store, const Path& model_folder, bool only_records);

}  // namespace picchio
