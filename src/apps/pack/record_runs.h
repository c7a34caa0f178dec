// The records of a store while it is being written: made, hashed and written in runs of
// neighbouring ones, on several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/pack/record_check.h"
#include "apps/pack/store_file.h"
#include "apps/progress.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "format/flat_index.h"

namespace picchio {

// Borrows all that it is made of. Memory while it works: that of ForEachRun, with two threads for
// each that is asked for. `stop` ends the work early with kCancelled.
class RecordRuns {
 public:
  RecordRuns(const FlatIndex& index, StoreFile& file, const std::atomic<bool>& stop)
      : index_(index), file_(file), stop_(stop) {}

  // What Write writes.
  uint64_t bytes() const { return index_.superblock().num_entries * index_.padded_record_bytes(); }

  // make(place, record) fills the record's bytes, which hold anything before, and sets its hashes
  // in the index; will_need(place) tells that it will soon be asked for. Both are called by several
  // threads at a time. With as many threads busy as `num_threads`, while as many wait for the disk.
  Status Write(int num_threads, FunctionRef<void(RecordPlace)> will_need,
               FunctionRef<Status(RecordPlace, std::span<std::byte>)> make, Progress& progress);

  // The superblock and the index, when all hashes are known.
  Status WriteHead(std::span<const std::byte> head);

  // Reads all of it from the disk and compares it with the index; after StoreFile::Sync.
  Status ReadBack(std::span<const std::byte> head, int num_threads);

 private:
  const FlatIndex& index_;
  StoreFile& file_;
  const std::atomic<bool>& stop_;
};

}  // namespace picchio
