// The records of earlier runs.
#include <algorithm>

#include "experts/expert_cache.h"

namespace picchio {
namespace {

// Preloads in flight: enough for a device to be busy, few enough for a demand not to wait long.
constexpr size_t kMaxPreloads = 4;

}  // namespace

void ExpertCache::Preload(std::span<const CacheDirectory::Uses> uses) {
  PICCHIO_CHECK(!fetching_ && preload_total_ == 0);
  for (const CacheDirectory::Uses& record : uses) directory_.Seed(record.key, record.uses);
  for (const CacheDirectory::Uses& record : uses.first(std::min(uses.size(), slot_of_.size()))) {
    preload_.push_back(record.key);
  }
  std::ranges::reverse(preload_);
  preload_total_ = preload_.size();
}

void ExpertCache::ContinuePreload() {
  while (!preload_.empty() && preload_in_flight_ < kMaxPreloads && unsubmitted_.empty()) {
    const ExpertKey key = preload_.back();
    if (const std::optional<uint32_t> position = directory_.Preload(key); position.has_value()) {
      const uint32_t slot_idx = slot_of_[*position];
      if (slots_[slot_idx].state == State::kLoading ||
          !Speculate(slot_idx, key, Reason::kPreload)) {
        directory_.Forget(*position);
        return;  // Another time.
      }
      ++preload_in_flight_;
    }
    preload_.pop_back();
  }
}

}  // namespace picchio
