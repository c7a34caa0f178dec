#include "experts/null_expert_source.h"

#include <algorithm>
#include <cstring>

namespace picchio {

size_t NullExpertSource::Submit(std::span<const ReadRequest> requests) {
  const size_t accepted = std::min(requests.size(), max_in_flight() - tags_.size());
  for (const ReadRequest& request : requests.first(accepted)) {
    PICCHIO_CHECK(request.slot.data != nullptr && request.slot.bytes >= slot_bytes());
    if (fill_ == Fill::kZeros) std::memset(request.slot.data, 0, layout_.record_bytes);
    tags_.push_back(request.tag);
  }
  return accepted;
}

size_t NullExpertSource::Reap(std::span<Completion> out, std::chrono::nanoseconds /*timeout*/) {
  size_t count = 0;
  for (; count < out.size() && !tags_.empty(); ++count) {
    out[count] = {.tag = tags_.front()};
    tags_.pop_front();
  }
  return count;
}

}  // namespace picchio
