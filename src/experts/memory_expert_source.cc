#include "experts/memory_expert_source.h"

#include <algorithm>
#include <cstring>

namespace picchio {

Result<std::unique_ptr<MemoryExpertSource>> MemoryExpertSource::Create(
    const ExpertRecordLayout& layout, Records records, size_t max_in_flight) {
  for (const auto& [key, record] : records) {
    if (record.size() != layout.record_bytes) {
      return Error(Code::kInvalidArgument, "{}: a record of {} bytes, the layout has {}",
                   ToString(key), record.size(), layout.record_bytes);
    }
  }
  if (max_in_flight == 0) {
    return Error(Code::kInvalidArgument, "a source must hold at least one read at once");
  }
  return std::unique_ptr<MemoryExpertSource>(
      new MemoryExpertSource(layout, std::move(records), max_in_flight));
}

size_t MemoryExpertSource::Submit(std::span<const ReadRequest> requests) {
  const size_t accepted = std::min(requests.size(), max_in_flight_ - pending_.size());
  for (const ReadRequest& request : requests.first(accepted)) {
    PICCHIO_CHECK(request.slot.data != nullptr && request.slot.bytes >= slot_bytes());
    pending_.push_back({.request = request});
  }
  return accepted;
}

size_t MemoryExpertSource::Reap(std::span<Completion> out, std::chrono::nanoseconds /*timeout*/) {
  size_t count = 0;
  while (count < out.size() && !pending_.empty()) {
    out[count] = Serve(pending_.front());
    pending_.pop_front();
    ++count;
  }
  return count;
}

Completion MemoryExpertSource::Serve(const Pending& pending) {
  const ReadRequest& request = pending.request;
  Completion completion{.tag = request.tag};
  const auto record = records_.find(request.key);
  if (pending.cancelled) {
    completion.status =
        Error(Code::kCancelled, "{}: the read was cancelled", ToString(request.key));
  } else if (record == records_.end()) {
    completion.status = Error(Code::kNotFound, "{}: not in memory", ToString(request.key));
  } else {
    std::memcpy(request.slot.data, record->second.data(), layout_.record_bytes);
  }
  return completion;
}

void MemoryExpertSource::Cancel(uint64_t tag) {
  for (Pending& pending : pending_) {
    if (pending.request.tag == tag) pending.cancelled = true;
  }
}

}  // namespace picchio
