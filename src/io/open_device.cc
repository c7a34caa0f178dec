#include "io/open_device.h"

#include <algorithm>
#include <utility>

#include "base/human.h"
#include "base/page_memory.h"
#include "io/buffered_device.h"
#include "io/direct_device.h"
#include "io/uring_device.h"

namespace picchio {
namespace {

// Enough for a drive's bandwidth at records of a megabyte or more (docs/io.md has the figures);
// deeper queues only make each read wait longer.
constexpr int kDefaultDepth = 32;
constexpr int kDefaultThreads = 16;

constexpr uint64_t kLeastMeasured = 64_MiB;
// Of each of four measurements, which all end the reads that they have begun.
constexpr std::chrono::milliseconds kProbeTime{50};
constexpr size_t kProbeDepth = 16;
// A drive below this is what limits, whatever the way of reading. Found out with a few megabytes.
constexpr double kSlowDrive = 400e6;
constexpr uint64_t kFirstProbeBytes = 4_MiB;
// Threads must be this much faster: two measurements of so short a time differ by chance.
constexpr double kClearly = 1.2;

std::string Rate(double bytes_per_second) { return FormatBytes(bytes_per_second) + "/s"; }

class Opener {
 public:
  Opener(std::span<const Path> paths, const OpenDeviceOptions& options)
      : paths_(paths),
        options_(options),
        depth_(options.queue_depth > 0 ? options.queue_depth : kDefaultDepth),
        threads_(options.num_threads > 0   ? options.num_threads
                 : options.queue_depth > 0 ? options.queue_depth
                                           : kDefaultThreads),
        max_in_flight_(static_cast<size_t>(std::max({256, depth_, threads_}))) {}

  Result<OpenedDevice> Buffered(std::string_view why) {
    PICCHIO_ASSIGN_OR_RETURN(auto device,
                             BufferedDevice::Open(paths_, {.num_threads = threads_,
                                                           .max_in_flight = max_in_flight_,
                                                           .faults = options_.faults}));
    return OpenedDevice{std::move(device),
                        fmt::format("buffered reads by {} threads{}", threads_, why)};
  }

  Result<OpenedDevice> Direct(std::string_view why) {
    PICCHIO_ASSIGN_OR_RETURN(auto device,
                             DirectDevice::Open(paths_, {.num_threads = threads_,
                                                         .max_in_flight = max_in_flight_,
                                                         .max_alignment = options_.max_alignment,
                                                         .faults = options_.faults}));
    if (device->alignment() == 1) return Buffered(Because(*device));
    return OpenedDevice{std::move(device),
                        fmt::format("unbuffered reads by {} threads{}", threads_, why)};
  }

  Result<std::unique_ptr<UringDevice>> OpenUring() {
    return UringDevice::Open(paths_, {.queue = {.depth = static_cast<size_t>(depth_),
                                                .max_in_flight = max_in_flight_,
                                                .faults = options_.faults},
                                      .threads = {threads_, max_in_flight_},
                                      .max_alignment = options_.max_alignment});
  }

  Result<OpenedDevice> Uring(bool measure) {
    PICCHIO_ASSIGN_OR_RETURN(auto device, OpenUring());
    if (device->alignment() == 1) return Buffered(Because(*device));
    if (!device->ring_status().ok()) return Direct(": " + device->ring_status().message());
    std::string why;
    if (measure) {
      double ring = 0;
      double threads = 0;
      Measure(*device, ring, threads);
      if (threads > ring * kClearly) {
        return Direct(fmt::format(": {} in a probe, io_uring {}", Rate(threads), Rate(ring)));
      }
      if (ring == 0) {
        why = ": the fastest way as a rule, nothing here to measure it on";
      } else if (threads == 0) {
        why = fmt::format(": {} in a probe, the drive is the limit", Rate(ring));
      } else {
        why = fmt::format(": {} in a probe, threads {}", Rate(ring), Rate(threads));
      }
    }
    return OpenedDevice{std::move(device),
                        fmt::format("unbuffered reads by io_uring, {} at once{}", depth_, why)};
  }

 private:
  static std::string Because(const BlockDevice& device) {
    const std::vector<std::string> notes = device.Report().notes;
    return notes.empty() ? "" : ": " + notes.front();
  }

  // Bytes per second of both, each the better of two; 0 where that could not be measured: that is
  // no reason not to start. Of the ring alone where the drive is slow.
  void Measure(BlockDevice& ring, double& ring_rate, double& threads_rate) {
    ReadLoad load{
        .read_bytes = RoundUp(std::max<uint64_t>(options_.probe_read_bytes, 1), ring.alignment()),
        .depth = kProbeDepth,
        .max_time = kProbeTime};
    for (uint32_t i = 1; i < ring.num_files(); ++i) {
      if (ring.file_bytes(i) > ring.file_bytes(load.file_idx)) load.file_idx = i;
    }
    const uint64_t file_bytes = ring.file_bytes(load.file_idx);
    if (file_bytes < std::max(kLeastMeasured, load.read_bytes)) return;
    auto threads = Direct({});
    auto memory = PageMemory::Allocate(ReadLoadMemory(load));
    if (!threads.has_value() || !memory.has_value()) return;
    ReadLoad first = load;
    first.depth = 2;
    first.max_bytes = kFirstProbeBytes;
    const auto at_first = options_.measure(ring, first, memory->bytes());
    if (!at_first.has_value()) return;
    if (at_first->BytesPerSecond() < kSlowDrive) {
      ring_rate = at_first->BytesPerSecond();
      return;
    }
    // Not more in flight than the drive does in the time.
    const double in_time =
        at_first->BytesPerSecond() * std::chrono::duration<double>(kProbeTime).count();
    load.depth = std::clamp<size_t>(
        static_cast<size_t>(in_time / static_cast<double>(load.read_bytes)), 4, kProbeDepth);
    for (int round = 0; round < 2; ++round) {
      ++load.seed;
      const auto by_ring = options_.measure(ring, load, memory->bytes());
      const auto by_threads = options_.measure(*threads->device, load, memory->bytes());
      if (!by_ring.has_value() || !by_threads.has_value()) return;
      ring_rate = std::max(ring_rate, by_ring->BytesPerSecond());
      threads_rate = std::max(threads_rate, by_threads->BytesPerSecond());
    }
  }

  const std::span<const Path> paths_;
  const OpenDeviceOptions& options_;
  const int depth_;
  const int threads_;
  const size_t max_in_flight_;
};

}  // namespace

Result<IoKind> ParseIoKind(std::string_view word) {
  if (word == "auto") return IoKind::kAuto;
  if (word == "buffered") return IoKind::kBuffered;
  if (word == "direct") return IoKind::kDirect;
  if (word == "uring") return IoKind::kUring;
  return Error(Code::kInvalidArgument,
               "no way of reading is called '{}': auto, buffered, direct and uring are", word);
}

Result<OpenedDevice> OpenDevice(std::span<const Path> paths, const OpenDeviceOptions& options) {
  constexpr int kMost = 4096;
  if (options.queue_depth < 0 || options.queue_depth > kMost || options.num_threads < 0 ||
      options.num_threads > kMost) {
    return Error(Code::kInvalidArgument,
                 "{} reads at once by {} threads: both must be from 0 (automatic) to {}",
                 options.queue_depth, options.num_threads, kMost);
  }
  Opener opener(paths, options);
  switch (options.kind) {
    case IoKind::kBuffered:
      return opener.Buffered({});
    case IoKind::kDirect:
      return opener.Direct({});
    case IoKind::kUring:
      return opener.Uring(false);
    case IoKind::kAuto:
      break;
  }
  return opener.Uring(true);
}

}  // namespace picchio
