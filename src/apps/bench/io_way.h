// The ways in which a store's records can be read, each as a device.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <string_view>

#include "base/file.h"
#include "base/status.h"
#include "base/units.h"
#include "io/block_device.h"

namespace picchio {

enum class IoWay : uint8_t {
  kUring,         // Past the page cache, through io_uring.
  kDirect,        // Past it, by threads.
  kBuffered,      // Through it, emptied of these records before.
  kBufferedWarm,  // Through it, with all of them in it: what memory gives.
};
inline constexpr IoWay kIoWays[] = {IoWay::kUring, IoWay::kDirect, IoWay::kBuffered,
                                    IoWay::kBufferedWarm};

std::string_view IoWayName(IoWay way);  // "uring", "direct", "buffered", "buffered-warm".
constexpr bool PastThePageCache(IoWay way) { return way == IoWay::kUring || way == IoWay::kDirect; }

struct IoWayOptions {
  int depth = 1;
  uint64_t max_alignment = 64_KiB;  // The store's block size.
  bool register_memory = true;      // Of io_uring.
};

// The file in exactly that way; fails with kUnavailable and the reason where there is none here.
Result<std::unique_ptr<BlockDevice>> OpenIoWay(const Path& file, IoWay way,
                                               const IoWayOptions& options);

}  // namespace picchio
