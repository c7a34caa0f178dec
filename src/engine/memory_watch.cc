#include "engine/memory_watch.h"

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace picchio {
namespace {

constexpr std::chrono::seconds kInterval{1};

// Below the group's limit; less than nothing where more is in use.
int64_t RoomOf(const CgroupMemory& group, const MemoryInfo& memory) {
  return static_cast<int64_t>(group.limit_bytes) -
         static_cast<int64_t>(group.used_bytes + memory.hugetlb_bytes);
}

// The limit may move from one of the group's files to another: memory.high, memory.max.
std::string FolderOf(const CgroupMemory& group) {
  return group.limit_file.substr(0, group.limit_file.rfind('/'));
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
    for (const CgroupMemory& group : memory->groups) {
      starts_[FolderOf(group)] = {group.limit_bytes, std::max<int64_t>(RoomOf(group, *memory), 0)};
    }
    return;
  }
  int64_t missing = 0;
  for (const CgroupMemory& group : memory->groups) {
    const auto start = starts_.find(FolderOf(group));
    if (start != starts_.end() && group.limit_bytes >= start->second.limit_bytes) continue;
    auto room = static_cast<int64_t>(std::clamp<uint64_t>(group.limit_bytes / 20, 8_MiB, 2_GiB));
    if (start != starts_.end()) room = std::min(room, start->second.room_bytes);
    missing = std::max(missing, room - RoomOf(group, *memory));
  }
  if (missing <= 0) return;
  const uint64_t slots = CeilDiv(static_cast<uint64_t>(missing), experts_.slot_bytes());
  const size_t before = experts_.num_slots();
  const size_t left = experts_.ShrinkTo(before - std::min<uint64_t>(slots, before));
  bytes_given_back_ += (before - left) * experts_.slot_bytes();
}

}  // namespace picchio
