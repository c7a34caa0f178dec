// Reads ahead of any demand.
#include "experts/expert_cache.h"

namespace picchio {

bool ExpertCache::Speculate(uint32_t slot_idx, ExpertKey key, Reason reason) {
  const ReadRequest request{.key = key,
                            .slot = arena_.slot(slot_idx),
                            .tag = slot_idx,
                            .priority = ReadPriority::kPrefetch};
  if (!unsubmitted_.empty() || source_->Submit({&request, 1}) == 0) return false;
  SlotUse& use = slots_[slot_idx];
  if (use.state == State::kResident && use.reason == Reason::kPrefetch) {
    stats_.prefetch_wasted_bytes += layout().record_bytes;
  }
  ++in_flight_;
  NoteReading();
  use = {.key = key, .state = State::kLoading, .reason = reason, .speculative = true};
  return true;
}

void ExpertCache::Cancel(uint32_t slot_idx) {
  SlotUse& use = slots_[slot_idx];
  if (use.cancelled || !use.speculative) return;
  use.cancelled = true;
  source_->Cancel(slot_idx);
}

void ExpertCache::Prefetch(int layer, std::span<const int32_t> experts) {
  TakeCompletions(std::chrono::nanoseconds(0));
  for (const int32_t expert : experts) {
    const ExpertKey key{layer, expert};
    if (directory_.Find(key).has_value() || SpareWith(key).has_value()) continue;
    for (size_t tried = 0; tried < spare_.size(); ++tried) {
      const uint32_t slot_idx = spare_[next_spare_];
      next_spare_ = (next_spare_ + 1) % spare_.size();
      if (slots_[slot_idx].pins > 0 || slots_[slot_idx].state == State::kLoading) continue;
      if (!Speculate(slot_idx, key, Reason::kPrefetch)) return;
      ++stats_.prefetched;
      break;
    }
  }
}

std::optional<size_t> ExpertCache::SpareWith(ExpertKey key) const {
  for (size_t i = 0; i < spare_.size(); ++i) {
    const SlotUse& use = slots_[spare_[i]];
    if (use.state != State::kEmpty && use.key == key && !use.cancelled) return i;
  }
  return std::nullopt;
}

bool ExpertCache::TakeSpare(ExpertKey key, uint32_t position) {
  const std::optional<size_t> spare = SpareWith(key);
  if (!spare.has_value()) return false;
  std::swap(spare_[*spare], slot_of_[position]);
  return true;
}

void ExpertCache::NoteDemand(uint32_t slot_idx) {
  SlotUse& use = slots_[slot_idx];
  if (use.state == State::kLoading && use.speculative) source_->Promote(slot_idx);
  if (use.reason == Reason::kPrefetch) {
    ++stats_.prefetch_used;
    use.reason = Reason::kDemand;
  }
}

}  // namespace picchio
