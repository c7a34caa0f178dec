// How fast this machine reads from a place, measured: what a prediction of tokens per second needs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/status.h"
#include "io/open_device.h"

namespace picchio {

struct ReadRateOptions {
  double seconds = 2;
  // Of one read, rounded up to what the device asks for. None: as large as the records of the store
  // that is read, or as those of Qwen3-30B-A3B.
  std::optional<uint64_t> read_bytes{};
  IoKind kind = IoKind::kAuto;
  // Reads come so many at once, each time after a pause in which nothing is asked for, as the
  // layers of a model read; the rate is then that while they are under way. 0: without a pause.
  // A limit on the mean rate, as cloud volumes have, is caught up with in the pauses.
  size_t burst_reads = 0;
  std::chrono::nanoseconds pause{0};
  const std::atomic<bool>* stop = nullptr;  // Where it is set, the measurement fails as cancelled.
  // Where there is nothing large to read: a file of so many bytes at most, which takes no more than
  // a quarter of what is free.
  uint64_t temporary_bytes = uint64_t{1} << 30;
};

struct MeasuredReadRate {
  double bytes_per_second = 0;
  std::string source{};  // What was read: the file, or "a temporary file in FOLDER".
  std::string way{};     // As OpenDevice says it: "unbuffered reads by io_uring, 32 at once: ...".
  bool temporary =
      false;  // Just written: a drive's or a hypervisor's own cache may have served it.
  uint64_t read_bytes = 0;
  double huge_share = 0;  // Of the memory that was read into.
  // Part of the bytes that the kernel says came from storage; none where it does not say. Below
  // 0.99 the rate is not the drive's.
  std::optional<double> storage_share{};
};

// What to read for a path: it itself where it is a file of 64 MiB or more or a block device, the
// store or the largest file of a folder where that is so large, else none: then a temporary file is
// written there, without a name, so that it goes away whatever happens. Reads of random places for
// `seconds`, 16 in flight or in bursts, into memory in huge pages. Nothing is kept. Shows progress
// while it writes. Fails where there is no such path, or no room for 64 MiB.
Result<MeasuredReadRate> MeasureStorageReadRate(const Path& path, const ReadRateOptions& options);

// The file that would be read; none for a temporary one.
std::optional<Path> LargeFileAt(const Path& path);

}  // namespace picchio
