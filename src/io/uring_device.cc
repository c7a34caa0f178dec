#include "io/uring_device.h"

#include <utility>

namespace picchio {

Result<std::unique_ptr<UringDevice>> UringDevice::Open(std::span<const Path> paths,
                                                       const Options& options) {
  PICCHIO_RETURN_IF_ERROR(CheckThreadQueueOptions(options.threads));
  if (options.queue.depth < 1 || options.queue.max_in_flight < 1) {
    return Error(Code::kInvalidArgument, "depth {} and {} reads in flight: at least one of each",
                 options.queue.depth, options.queue.max_in_flight);
  }
  std::unique_ptr<UringDevice> device(new UringDevice(options));
  PICCHIO_ASSIGN_OR_RETURN(device->files_,
                           OpenDeviceFiles(paths,
                                           {.direct = true,
                                            .max_alignment = options.max_alignment,
                                            .max_request_bytes = options.queue.max_request_bytes,
                                            .faults = options.queue.faults},
                                           &device->statistics_));
  device->name_ = NameOfFiles(device->files_[0]->name(), device->files_.size());
  device->alignment_ = AlignmentOf(device->files_);
  // Found out now, so that whoever chooses a device can choose another.
  device->ring_status_ = UringRing::Open(options.queue.ring).status();
  return device;
}

Result<std::unique_ptr<ReadQueue>> UringDevice::OpenQueue() {
  auto queue = UringQueue::Open(files_, alignment_, options_.queue, &statistics_);
  if (queue.has_value()) return std::unique_ptr<ReadQueue>(std::move(queue).value());
  statistics_.Note("no io_uring", queue.error().message() + "; threads read instead");
  return StartThreadQueue(
      options_.threads,
      [this](const DeviceRead& read) { return ReadAligned(files_, alignment_, read); },
      &statistics_);
}

}  // namespace picchio
