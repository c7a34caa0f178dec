#include "io/device_statistics.h"

#include <utility>

namespace picchio {

void DeviceStatistics::Note(std::string_view subject, std::string sentence) {
  const std::scoped_lock lock(mutex_);
  if (subjects_.emplace(subject).second) notes_.push_back(std::move(sentence));
}

DeviceReport DeviceStatistics::Report() const {
  const std::scoped_lock lock(mutex_);
  return {.num_reads = num_reads_.load(std::memory_order_relaxed),
          .direct_bytes = direct_bytes_.load(std::memory_order_relaxed),
          .buffered_bytes = buffered_bytes_.load(std::memory_order_relaxed),
          .num_resumed = num_resumed_.load(std::memory_order_relaxed),
          .num_direct_failures = num_direct_failures_.load(std::memory_order_relaxed),
          .registered_bytes = registered_bytes_.load(std::memory_order_relaxed),
          .notes = notes_};
}

}  // namespace picchio
