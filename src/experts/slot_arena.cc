#include "experts/slot_arena.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/cgroup.h"
#include "base/huge_pages.h"

namespace picchio {

uint64_t SlotArena::StrideFor(uint64_t slot_bytes) {
  if (slot_bytes > 32_KiB) return RoundUp(slot_bytes, 64_KiB);
  return std::max<uint64_t>(std::bit_ceil(slot_bytes), 4_KiB);
}

Result<SlotArena> SlotArena::Create(uint64_t slot_bytes, size_t num_slots, uint64_t chunk_bytes,
                                    const std::function<void(uint64_t)>& on_backed) {
  if (slot_bytes > kMaxChunkBytes) {
    return Error(Code::kUnsupported, "a slot of {} bytes is larger than a chunk can be ({} bytes)",
                 slot_bytes, kMaxChunkBytes);
  }
  SlotArena arena;
  arena.num_slots_ = num_slots;
  arena.stride_ = StrideFor(slot_bytes);
  // Asked before anything is allocated: overcommit would grant it, and the kernel would then kill
  // somebody for it. The product cannot overflow below.
  const uint64_t physical_bytes = PhysicalMemoryBytes();
  if (num_slots > physical_bytes / arena.stride_) {
    return Error(Code::kResourceExhausted,
                 "{} slots of {} bytes do not fit into memory: the machine has {} MiB", num_slots,
                 arena.stride_, physical_bytes / 1_MiB);
  }
  arena.slots_per_chunk_ = static_cast<size_t>(
      std::max<uint64_t>(std::min(chunk_bytes, kMaxChunkBytes) / arena.stride_, 1));
  uint64_t backed_bytes = 0;
  for (size_t first = 0; first < num_slots; first += arena.slots_per_chunk_) {
    const uint64_t bytes = std::min(arena.slots_per_chunk_, num_slots - first) * arena.stride_;
    // A last chunk in small pages costs more than its own rate: the kernel may join it with the one
    // before, and a queue takes large requests only into memory that is huge to its last byte.
    const bool whole_huge_pages = first > 0 && bytes >= kHugePageBytes;
    auto memory = PageMemory::Allocate(whole_huge_pages ? RoundUp(bytes, kHugePageBytes) : bytes);
    if (!memory.has_value()) {
      return memory.error().WithContext(
          fmt::format("{} slots of {} bytes ({} MiB) do not fit into memory", num_slots,
                      arena.stride_, CeilDiv(num_slots * arena.stride_, 1_MiB)));
    }
    arena.chunks_.push_back({.space = MemorySpace::kHost,
                             .chunk_idx = static_cast<uint32_t>(arena.chunks_.size()),
                             .bytes = bytes,
                             .data = memory->data()});
    arena.memory_.push_back(std::move(memory).value());
    backed_bytes += bytes;
    if (on_backed) on_backed(backed_bytes);
  }
  return arena;
}

uint64_t SlotArena::HugeBytes() const {
  const std::string smaps = ReadPseudoFile("/proc/self/smaps");
  uint64_t huge = 0;
  for (const MemoryChunk& chunk : chunks_) {
    const uint64_t begin = reinterpret_cast<uintptr_t>(chunk.data);
    huge += HugeBytesInSmaps(smaps, begin, begin + chunk.bytes);
  }
  return huge;
}

void SlotArena::ShrinkTo(size_t num_chunks) {
  PICCHIO_CHECK(num_chunks > 0 && num_chunks <= chunks_.size());
  num_slots_ = SlotsOf(num_chunks);
  memory_.erase(memory_.begin() + static_cast<ptrdiff_t>(num_chunks), memory_.end());
  chunks_.resize(num_chunks);
}

Slot SlotArena::slot(size_t slot_idx) const {
  PICCHIO_DCHECK(slot_idx < num_slots_);
  const MemoryChunk& chunk = chunks_[slot_idx / slots_per_chunk_];
  const uint64_t offset = slot_idx % slots_per_chunk_ * stride_;
  return {.space = chunk.space,
          .chunk_idx = chunk.chunk_idx,
          .offset = offset,
          .bytes = stride_,
          .data = chunk.data + offset};
}

}  // namespace picchio
