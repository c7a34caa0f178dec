#include "io/direct_device.h"

#include <algorithm>
#include <utility>

namespace picchio {

Result<std::unique_ptr<DirectDevice>> DirectDevice::Open(std::span<const Path> paths,
                                                         const Options& options) {
  PICCHIO_RETURN_IF_ERROR(CheckThreadQueueOptions({options.num_threads, options.max_in_flight}));
  std::unique_ptr<DirectDevice> device(new DirectDevice(options));
  PICCHIO_ASSIGN_OR_RETURN(device->files_,
                           OpenDeviceFiles(paths,
                                           {.direct = true,
                                            .max_alignment = options.max_alignment,
                                            .max_request_bytes = options.max_request_bytes,
                                            .faults = options.faults},
                                           &device->statistics_));
  device->name_ = NameOfFiles(device->files_[0]->name(), device->files_.size());
  device->alignment_ = AlignmentOf(device->files_);
  return device;
}

Result<std::unique_ptr<ReadQueue>> DirectDevice::OpenQueue() {
  return StartThreadQueue(
      {options_.num_threads, options_.max_in_flight},
      [this](const DeviceRead& read) { return ReadAligned(files_, alignment_, read); },
      &statistics_);
}

}  // namespace picchio
