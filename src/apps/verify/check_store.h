// Every byte of an aligned store against its index.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/pack/record_check.h"
#include "base/file.h"
#include "base/status.h"
#include "format/flat_index.h"

namespace picchio {

struct StoreFault {
  RecordPlace place;
  Status status;
};

struct CheckedStore {
  FlatIndex index;
  std::vector<StoreFault> faults;  // Of records, in the order of the store.
  Status dense_fault;              // Of the dense image, where the store has one.
  uint64_t bytes = 0;              // Read and hashed.
  double seconds = 0;
};

// What else is asked of a whole record, from any thread.
using RecordCheck = std::function<Status(RecordPlace place, std::span<const std::byte> record)>;

// Reads the store with `num_threads` threads: superblock, index, size, every record's hashes and
// padding. Fails where superblock, index or size are wrong, or the file cannot be read at all; what
// is wrong with records is in the result. Memory: that of ForEachRun.
Result<CheckedStore> CheckStore(const File& store, int num_threads, const std::atomic<bool>& stop,
                                const RecordCheck& also = {});
Result<CheckedStore> CheckStore(const Path& store, int num_threads, const std::atomic<bool>& stop,
                                const RecordCheck& also = {});

// Whether the model that lies in the folder takes a store for its own: by the listing of its
// manifest or, in version 3, by the model id. Fails with kCorrupt where it does and the store
// contradicts its config, which finds what no hash of version 2 covers; and where the model cannot
// be read. `where` is what messages call the store.
Result<bool> IsStoreOfModel(const FlatIndex& index, const Path& model_folder,
                            std::string_view where);

// The first fault of a store, with how many more there are; OK where it is whole.
Status FirstFault(const CheckedStore& checked, const std::string& name);

}  // namespace picchio
