#include "apps/bench/io_way.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "io/buffered_device.h"
#include "io/direct_device.h"
#include "io/uring_device.h"

namespace picchio {
namespace {

// A device falls back by itself; here that is no answer.
template <typename Device>
Result<std::unique_ptr<BlockDevice>> Unbuffered(Result<std::unique_ptr<Device>> opened) {
  PICCHIO_RETURN_IF_ERROR(opened.status());
  if ((*opened)->alignment() == 1) {
    const std::vector<std::string> notes = (*opened)->Report().notes;
    return Status(Code::kUnavailable, notes.empty() ? "no unbuffered access" : notes.front());
  }
  return std::unique_ptr<BlockDevice>(std::move(*opened));
}

}  // namespace

std::string_view IoWayName(IoWay way) {
  switch (way) {
    case IoWay::kUring:
      return "uring";
    case IoWay::kDirect:
      return "direct";
    case IoWay::kBuffered:
      return "buffered";
    case IoWay::kBufferedWarm:
      break;
  }
  return "buffered-warm";
}

Result<std::unique_ptr<BlockDevice>> OpenIoWay(const Path& file, IoWay way,
                                               const IoWayOptions& options) {
  const std::span<const Path> paths(&file, 1);
  const auto in_flight = static_cast<size_t>(std::max(options.depth, 256));
  switch (way) {
    case IoWay::kUring: {
      PICCHIO_ASSIGN_OR_RETURN(
          auto device,
          UringDevice::Open(paths, {.queue = {.depth = static_cast<size_t>(options.depth),
                                              .max_in_flight = in_flight,
                                              .register_memory = options.register_memory},
                                    .threads = {options.depth, in_flight},
                                    .max_alignment = options.max_alignment}));
      if (device->alignment() > 1) PICCHIO_RETURN_IF_ERROR(device->ring_status());
      return Unbuffered<UringDevice>(std::move(device));
    }
    case IoWay::kDirect:
      return Unbuffered(DirectDevice::Open(paths, {.num_threads = options.depth,
                                                   .max_in_flight = in_flight,
                                                   .max_alignment = options.max_alignment}));
    case IoWay::kBuffered:
    case IoWay::kBufferedWarm:
      break;
  }
  PICCHIO_ASSIGN_OR_RETURN(auto device, BufferedDevice::Open(paths, {.num_threads = options.depth,
                                                                     .max_in_flight = in_flight}));
  return std::unique_ptr<BlockDevice>(std::move(device));
}

}  // namespace picchio
