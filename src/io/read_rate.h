// How fast a device is: reads of one size at random or given places, many at once, for a while.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "io/block_device.h"

namespace picchio {

struct ReadLoad {
  uint32_t file_idx = 0;
  uint64_t read_bytes = 0;  // A multiple of the device's alignment, at most the file's size.
  size_t depth = 1;         // Reads in flight; at least 1.
  // It ends when one of them is reached; every read that has begun is finished.
  std::chrono::nanoseconds max_time{0};
  uint64_t max_bytes = UINT64_MAX;
  // Where it is set, it ends too.
  const std::atomic<bool>* stop = nullptr;
  // Reads come `depth` at a time, each time after such a pause with nothing in flight. ReadRate
  // knows neither the pauses nor the first of these bursts. 0: reads follow one another.
  std::chrono::nanoseconds pause{0};
  uint64_t seed = 1;  // Of the places, which are multiples of read_bytes.
  // The places instead, in this order; over when all have been read.
  std::span<const uint64_t> offsets{};
};

struct ReadRate {
  uint64_t bytes = 0;
  double seconds = 0;
  uint64_t registered_bytes = 0;    // Of `memory`, at the device.
  double cpu_seconds = 0;           // Of this process meanwhile, the kernel's part included.
  std::vector<double> latencies{};  // Seconds from Submit to Reap, one per read, in no order.

  double BytesPerSecond() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

// Opens a queue, attaches `memory`, which has room for `depth` reads at a multiple of 64 KiB each
// and is overwritten, and reads. Fails as the first read that fails. Latency counts from just
// before the call of Submit that took the read to just after the call of Reap that returned it.
Result<ReadRate> MeasureReadRate(BlockDevice& device, const ReadLoad& load,
                                 std::span<std::byte> memory);

// What `memory` must have for such a load.
uint64_t ReadLoadMemory(const ReadLoad& load);

}  // namespace picchio
