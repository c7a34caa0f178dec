// The memory that records are read into: fixed slots, made once, never freed and allocated again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/page_memory.h"
#include "base/status.h"
#include "base/units.h"
#include "experts/expert_source.h"

namespace picchio {

// Slots of one size in chunks of host memory, each chunk a whole number of slots. Everything is
// touched when it is made: churn of page commits inside a run has cost other engines all that the
// cache won. Only whole chunks can be given back. One thread at a time; who writes to a slot is the
// cache's affair.
class SlotArena {
 public:
  // A chunk that io_uring can still register as one buffer.
  static constexpr uint64_t kMaxChunkBytes = 1_GiB;

  // The distance of slots that hold `slot_bytes` bytes: a multiple of 64 KiB, which is aligned for
  // any device and page size; below 64 KiB the next power of two, but at least 4096, so that a tiny
  // model's cache is not mostly padding.
  static uint64_t StrideFor(uint64_t slot_bytes);

  // Chunks are at most `chunk_bytes`, but hold at least one slot. Fails with kResourceExhausted,
  // giving the figures, where the slots do not fit into memory, with kUnsupported where one slot is
  // larger than a chunk can be. `on_backed` (may be empty) is told after every chunk how many bytes
  // have been so far: some gigabytes take seconds.
  static Result<SlotArena> Create(uint64_t slot_bytes, size_t num_slots, uint64_t chunk_bytes,
                                  const std::function<void(uint64_t)>& on_backed = {});

  // Slots of the first `num_chunks` chunks.
  size_t SlotsOf(size_t num_chunks) const {
    return std::min(num_slots_, num_chunks * slots_per_chunk_);
  }
  // Gives back the memory of all chunks but the first `num_chunks`, which are at least one.
  void ShrinkTo(size_t num_chunks);

  size_t num_slots() const { return num_slots_; }
  uint64_t stride() const { return stride_; }
  uint64_t bytes() const { return num_slots_ * stride_; }
  // How many of them lie in huge pages. Walks the process's page tables: for reports.
  uint64_t HugeBytes() const;
  std::span<const MemoryChunk> chunks() const { return chunks_; }
  Slot slot(size_t slot_idx) const;

 private:
  std::vector<PageMemory> memory_;
  std::vector<MemoryChunk> chunks_;
  size_t num_slots_ = 0;
  size_t slots_per_chunk_ = 0;
  uint64_t stride_ = 0;
};

}  // namespace picchio
