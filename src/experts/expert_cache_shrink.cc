// Memory given back while a run goes on.
#include <algorithm>
#include <cstring>

#include "experts/expert_cache.h"

namespace picchio {

size_t ExpertCache::ShrinkTo(size_t num_slots) {
  PICCHIO_CHECK(!fetching_);
  size_t num_chunks = arena_.chunks().size();
  const size_t least = std::max<size_t>(directory_.num_parts(), 2);
  while (num_chunks > 1 && arena_.SlotsOf(num_chunks) > num_slots &&
         arena_.SlotsOf(num_chunks - 1) >= least) {
    --num_chunks;
  }
  if (num_chunks == arena_.chunks().size()) return slots_.size();
  while (TakeCompletions(std::chrono::nanoseconds(0)) > 0) {
  }
  if (num_given_up_ > 0) return slots_.size();
  preload_.clear();
  for (uint32_t slot_idx = 0; slot_idx < slots_.size(); ++slot_idx) {
    if (slots_[slot_idx].state == State::kLoading) Cancel(slot_idx);
  }
  const Deadline deadline(read_timeout_);
  while (in_flight_ > 0) {
    if (TakeCompletions(deadline.left()) == 0 && deadline.passed()) {
      GiveUpReads();
      return slots_.size();
    }
  }
  MoveIntoFirst(arena_.SlotsOf(num_chunks));
  for (const MemoryChunk& chunk : arena_.chunks().subspan(num_chunks)) source_->Detach(chunk);
  num_attached_ = num_chunks;
  arena_.ShrinkTo(num_chunks);
  return slots_.size();
}

void ExpertCache::MoveIntoFirst(size_t num_slots) {
  const size_t num_spare = PrefetchSlots(num_slots, spare_.size(), experts_per_token_);
  for (const CacheDirectory::Move& move : directory_.ShrinkTo(num_slots - num_spare)) {
    std::swap(slot_of_[move.from], slot_of_[move.to]);
  }
  slot_of_.resize(directory_.num_positions());
  const auto holds = [&](size_t position) {
    return directory_.Holds(static_cast<uint32_t>(position)).has_value();
  };
  std::vector<bool> taken(num_slots);
  for (size_t position = 0; position < slot_of_.size(); ++position) {
    if (holds(position) && slot_of_[position] < num_slots) taken[slot_of_[position]] = true;
  }
  uint32_t next = 0;
  const auto take_free = [&] {
    while (taken[next]) ++next;
    taken[next] = true;
    slots_[next] = {};
    return next;
  };
  for (size_t position = 0; position < slot_of_.size(); ++position) {
    const uint32_t from = slot_of_[position];
    if (holds(position) && from < num_slots) continue;
    const uint32_t to = slot_of_[position] = take_free();
    if (!holds(position)) continue;
    slots_[to] = slots_[from];
    std::memcpy(arena_.slot(to).data, arena_.slot(from).data, layout().record_bytes);
  }
  spare_.clear();
  for (size_t i = 0; i < num_spare; ++i) spare_.push_back(take_free());
  next_spare_ = 0;
  slots_.resize(num_slots);
}

}  // namespace picchio
