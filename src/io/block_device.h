// The device layer: bytes at offsets, many reads in flight, whatever lies below.
//
// A BlockDevice is a set of equal files (the shards of a container), one file (a store), a raw
// partition or a controller of our own. Reads go through a ReadQueue; each reading thread has its
// own. Thread pool and pread, O_DIRECT, io_uring, IOCP and user-space NVMe are all meant to have
// this face, and one conformance suite (block_device_conformance_test.cc) holds them to it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/status.h"
#include "io/device_statistics.h"

namespace picchio {

// A demand is waited for; a prefetch is a guess. Where reads queue up, demands go first.
enum class ReadPriority : uint8_t { kDemand, kPrefetch };

struct DeviceRead {
  uint32_t file_idx = 0;     // Which of the device's files; 0 where it is one.
  uint64_t offset = 0;       // First byte in that file.
  std::span<std::byte> out;  // All of it is filled. Not empty.
  uint64_t tag = 0;          // The caller's own; distinct among the reads in flight.
  ReadPriority priority = ReadPriority::kDemand;
};

struct DeviceCompletion {
  uint64_t tag = 0;
  Status status{};  // Names the file and the byte. kCancelled where Cancel came in time.
};

// Reads in flight. All calls come from one thread, the queue's owner: the one that submits first.
//
// `out` of a read belongs to the queue from Submit until its completion is reaped or Drain or the
// destructor returns; no time-out or cancel gives it back earlier. Its bytes are defined only when
// the status is OK. Interrupted and short transfers are continued by the queue; an end of file
// before the end of `out` is kIoError.
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;  // As Drain().

  // How many reads it holds at once, at least 1: submitted and not yet reaped.
  virtual size_t max_in_flight() const = 0;

  // Announces memory that reads will land in, which some devices must register or map; the others
  // have nothing to do. Detach only when no read into it is in flight.
  virtual Status Attach(std::span<std::byte> /*memory*/) { return Status::Ok(); }
  virtual void Detach(std::span<std::byte> /*memory*/) {}

  // Takes the first n reads, returns n, never waits for one to complete. n may be less than
  // reads.size(), but is at least 1 when nothing is in flight.
  virtual size_t Submit(std::span<const DeviceRead> reads) = 0;

  // Waits until a read has completed, `timeout` has passed or nothing is in flight; then writes
  // what has completed, in any order, to the front of `out` and returns how many. Zero polls.
  virtual size_t Reap(std::span<DeviceCompletion> out, std::chrono::nanoseconds timeout) = 0;

  // A read that has not begun need not be done: it completes soon, with kCancelled or as it would
  // have. Unknown tags (it may just have completed) are ignored.
  virtual void Cancel(uint64_t tag) = 0;

  // A prefetch that is now waited for. Unknown tags are ignored.
  virtual void Promote(uint64_t tag) = 0;

  // Cancels what has not begun, waits for the rest and drops all completions. The queue is then
  // empty and usable.
  virtual void Drain() = 0;
};

// kInvalidArgument, naming the place, where `read` does not keep to `alignment` in a file of
// `file_bytes` bytes called `name`.
Status CheckAlignment(const DeviceRead& read, uint64_t alignment, uint64_t file_bytes,
                      std::string_view name);

// What there is to read. Any thread may call; queues must not outlive their device.
class BlockDevice {
 public:
  virtual ~BlockDevice() = default;

  virtual const std::string& name() const = 0;  // For messages and reports.
  virtual size_t num_files() const = 0;
  virtual uint64_t file_bytes(size_t file_idx) const = 0;  // As it was when the device was opened.

  // What offset, length and address of every read must be a multiple of, a power of two; 1 where
  // nothing is asked. The length of a read that ends where its file ends is free. Other reads are
  // answered with kInvalidArgument.
  virtual uint64_t alignment() const = 0;

  // What it did so far, and what its user should know.
  virtual DeviceReport Report() const { return {}; }

  virtual Result<std::unique_ptr<ReadQueue>> OpenQueue() = 0;
};

}  // namespace picchio
