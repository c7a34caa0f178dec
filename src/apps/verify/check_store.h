// Every byte of an aligned store against its index.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
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
// is wrong with records is in the result. Memory: a run of 8 MiB or a single larger record a
// thread.
Result<CheckedStore> CheckStore(const Path& store, int num_threads, const std::atomic<bool>& stop,
                                const RecordCheck& also = {});

// The first fault of a store, with how many more there are; OK where it is whole.
Status FirstFault(const CheckedStore& checked, const std::string& name);

}  // namespace picchio
