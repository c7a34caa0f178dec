// One record of a store against the store's index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "format/flat_index.h"

namespace picchio {

struct RecordPlace {
  uint32_t layer = 0;
  uint32_t expert = 0;
};

// The records that a store has, in the order in which they lie in it.
std::vector<RecordPlace> RecordsOf(const FlatIndex& index);

// Runs of neighbouring records that are read or written as one piece: together at most `max_bytes`
// with their padding, and at least one. Each is [first, last) of RecordsOf.
struct RecordRun {
  size_t first = 0;
  size_t last = 0;
};
std::vector<RecordRun> RunsOf(const FlatIndex& index, uint64_t max_bytes);

// The hashes that belong into the index.
void SetRecordHashes(FlatIndex& index, RecordPlace place, std::span<const std::byte> record);

// `stored` is the record with its padding. Fails with kCorrupt unless its hashes are the index's
// and the padding is zero, naming the expert and the byte of the store.
Status CheckRecord(const FlatIndex& index, RecordPlace place, std::span<const std::byte> stored);

}  // namespace picchio
