// Which device to read files through: what the user asked for, or what this machine reads fastest
// with.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/units.h"
#include "io/block_device.h"
#include "io/read_rate.h"
#include "io/transfer_faults.h"

namespace picchio {

enum class IoKind : uint8_t { kAuto, kBuffered, kDirect, kUring };

// "auto", "buffered", "direct", "uring"; anything else is kInvalidArgument with that list.
Result<IoKind> ParseIoKind(std::string_view word);

struct OpenDeviceOptions {
  IoKind kind = IoKind::kAuto;
  // Reads at the device at once; 0 leaves it to us. Where threads read it is their number, unless
  // num_threads says another.
  int queue_depth = 0;
  int num_threads = 0;
  uint64_t max_alignment = 64_KiB;    // What the caller's reads can keep to: a store's block size.
  uint64_t probe_read_bytes = 2_MiB;  // The size of a usual read, for kAuto's measurement.
  std::shared_ptr<TransferFaults> faults{};  // For tests; null: none.
  // What kAuto measures with; another one is for tests.
  std::function<Result<ReadRate>(BlockDevice&, const ReadLoad&, std::span<std::byte>)> measure =
      MeasureReadRate;
};

struct OpenedDevice {
  std::unique_ptr<BlockDevice> device;
  std::string choice;  // One line: what was chosen and why.
};

// kAuto prefers unbuffered reads wherever they work, since the page cache would take the memory
// that the expert cache needs: io_uring, or threads where there is none or where they were clearly
// faster in a measurement on the largest file, which takes at most half a second from 100 MB/s on.
// Files of under 64 MiB, and drives that are slower than either way, are not measured. A kind that
// was asked for and does not work here gives way to the next slower one, and `choice` says why.
// Fails as opening a file fails, and with kInvalidArgument for negative options.
Result<OpenedDevice> OpenDevice(std::span<const Path> paths, const OpenDeviceOptions& options);

}  // namespace picchio
