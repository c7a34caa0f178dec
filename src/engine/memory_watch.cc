#include "engine/memory_watch.h"

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace picchio {
namespace {

constexpr std::chrono::seconds kInterval{1};

uint64_t LimitOf(const MemoryInfo& memory) {
  return memory.cgroup.has_value() ? memory.cgroup->limit_bytes : UINT64_MAX;
}

// Below the limit; less than nothing where more is in use.
int64_t RoomOf(const MemoryInfo& memory) {
  return static_cast<int64_t>(memory.cgroup->limit_bytes) -
         static_cast<int64_t>(memory.cgroup->used_bytes + memory.hugetlb_bytes);
}

}  // namespace

MemoryWatch::MemoryWatch(ExpertCache& experts, Read read, std::function<Clock::time_point()> now)
    : experts_(experts), read_(std::move(read)), now_(std::move(now)) {}

void MemoryWatch::Check() {
  const Clock::time_point now = now_();
  const bool first = !last_check_.has_value();
  if (!first && now - *last_check_ < kInterval) return;
  last_check_ = now;
  const Result<MemoryInfo> memory = read_();
  if (!memory.has_value()) return;
  if (first) {
    // Whoever asked for a cache that leaves less room than this is not to lose it again.
    limit_bytes_ = LimitOf(*memory);
    room_bytes_ = memory->cgroup.has_value() ? std::max<int64_t>(RoomOf(*memory), 0) : INT64_MAX;
    return;
  }
  if (LimitOf(*memory) >= limit_bytes_) return;
  const auto usual =
      static_cast<int64_t>(std::clamp<uint64_t>(LimitOf(*memory) / 20, 8_MiB, 2_GiB));
  const int64_t missing = std::min(room_bytes_, usual) - RoomOf(*memory);
  if (missing <= 0) return;
  const uint64_t slots = CeilDiv(static_cast<uint64_t>(missing), experts_.slot_bytes());
  const size_t before = experts_.num_slots();
  const size_t left = experts_.ShrinkTo(before - std::min<uint64_t>(slots, before));
  bytes_given_back_ += (before - left) * experts_.slot_bytes();
}

}  // namespace picchio
