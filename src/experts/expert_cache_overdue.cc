// A source that does not answer.
#include <algorithm>
#include <utility>

#include "experts/expert_cache.h"

namespace picchio {

void ExpertCache::GiveUpReads() {
  std::vector<bool> unsubmitted(slots_.size());
  for (const ReadRequest& request : unsubmitted_) unsubmitted[request.tag] = true;
  std::vector<bool> hopeless(slots_.size());  // There is no other place to read it from.
  // All of them, waited for or not: they may be what takes up the source's room.
  for (uint32_t slot_idx = 0; slot_idx < slots_.size(); ++slot_idx) {
    SlotUse& use = slots_[slot_idx];
    if (use.state != State::kLoading || use.given_up || unsubmitted[slot_idx]) continue;
    use.given_up = true;
    use.cancelled = true;
    ++num_given_up_;
    ++stats_.timeouts;
    if (std::exchange(use.reason, Reason::kDemand) == Reason::kPreload) --preload_in_flight_;
    hopeless[slot_idx] = !source_->GiveUp(slot_idx);
  }
  NoteReading();
  // They would ask for the positions of those that hang, again and again.
  if (num_given_up_ > 0) preload_.clear();
  std::vector<bool> listed(slot_of_.size());
  for (Item& item : items_) {
    if (item.done) continue;
    listed[item.position] = true;
    if (!item.begun || !slots_[item.slot_idx].given_up) continue;
    UnbeginItem(item);
    if (!hopeless[item.slot_idx] || !failure_.ok()) continue;
    failure_ =
        Error(Code::kUnavailable, "{}: {} has not answered for {} seconds", ToString(item.key),
              source_->name(), std::chrono::duration<double>(read_timeout_).count());
  }
  // What the others would have had is not here, nor on its way.
  for (uint32_t position = 0; position < slot_of_.size(); ++position) {
    if (!listed[position] && slots_[slot_of_[position]].given_up) directory_.Forget(position);
  }
}

bool ExpertCache::ReplaceSlot(uint32_t position) {
  const auto is_free = [this](uint32_t slot_idx) {
    return slots_[slot_idx].state != State::kLoading && slots_[slot_idx].pins == 0;
  };
  if (const auto spare = std::ranges::find_if(spare_, is_free); spare != spare_.end()) {
    std::swap(*spare, slot_of_[position]);
    return true;
  }
  std::vector<bool> listed(slot_of_.size());
  for (const Item& item : items_) listed[item.position] = listed[item.position] || !item.done;
  std::optional<uint32_t> giver;
  for (uint32_t other = 0; other < slot_of_.size(); ++other) {
    if (listed[other] || !is_free(slot_of_[other])) continue;
    giver = other;
    if (!directory_.Holds(other).has_value()) break;  // Nothing is lost.
  }
  if (!giver.has_value()) return false;
  directory_.Forget(*giver);
  std::swap(slot_of_[*giver], slot_of_[position]);
  return true;
}

}  // namespace picchio
