// The records of a store in runs of neighbouring ones, each run one piece of the file, on several
// threads with a buffer each: how stores are written, read back, checked and compared.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/pack/record_check.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "format/flat_index.h"

namespace picchio {

// One run, in the hands of one thread.
struct RunInHand {
  std::span<const RecordPlace> places;
  size_t first = 0;               // places[0] among RecordsOf.
  uint64_t offset = 0;            // Of the first record in the store.
  std::span<std::byte> buffer{};  // As long as the records with their padding; holds anything.
  size_t worker = 0;              // Whose buffer it is, below the number that was asked for.
  // The run that will be begun when this and those of all other threads are done; for hints.
  std::span<const RecordPlace> ahead{};

  // The i-th record's part of the buffer, padding included.
  std::span<std::byte> record(size_t i) const {
    const size_t padded = buffer.size() / places.size();
    return buffer.subspan(i * padded, padded);
  }
};

// Calls work(run) for each run of 8 MiB, or of a single larger record, in the order of the store,
// by at most `num_workers` threads: fewer where their buffers would take more than 1 GiB together.
// `stop` ends it early with kCancelled. Fails as RunOnThreads does.
Status ForEachRun(const FlatIndex& index, int num_workers, const std::atomic<bool>& stop,
                  FunctionRef<Status(const RunInHand&)> work);

}  // namespace picchio
