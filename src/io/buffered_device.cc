#include "io/buffered_device.h"

#include <iterator>
#include <utility>

#include "io/device_file.h"

namespace picchio {

Result<std::unique_ptr<BufferedDevice>> BufferedDevice::Open(std::span<const Path> paths,
                                                             const Options& options) {
  auto statistics = std::make_unique<DeviceStatistics>();
  PICCHIO_ASSIGN_OR_RETURN(auto opened,
                           OpenDeviceFiles(paths, {.faults = options.faults}, statistics.get()));
  std::vector<std::unique_ptr<const RandomAccessFile>> files(
      std::make_move_iterator(opened.begin()), std::make_move_iterator(opened.end()));
  PICCHIO_ASSIGN_OR_RETURN(auto device, Create(std::move(files), options));
  device->statistics_ = std::move(statistics);
  return device;
}

Result<std::unique_ptr<BufferedDevice>> BufferedDevice::Create(
    std::vector<std::unique_ptr<const RandomAccessFile>> files, const Options& options) {
  if (files.empty()) return Error(Code::kInvalidArgument, "a device needs at least one file");
  PICCHIO_RETURN_IF_ERROR(CheckThreadQueueOptions({options.num_threads, options.max_in_flight}));
  return std::unique_ptr<BufferedDevice>(new BufferedDevice(std::move(files), options));
}

BufferedDevice::BufferedDevice(std::vector<std::unique_ptr<const RandomAccessFile>> files,
                               const Options& options)
    : files_(std::move(files)),
      options_(options),
      name_(NameOfFiles(files_[0]->name(), files_.size())) {}

DeviceReport BufferedDevice::Report() const {
  return statistics_ == nullptr ? DeviceReport() : statistics_->Report();
}

Result<std::unique_ptr<ReadQueue>> BufferedDevice::OpenQueue() {
  return StartThreadQueue(
      {options_.num_threads, options_.max_in_flight},
      [this](const DeviceRead& read) {
        PICCHIO_CHECK(read.file_idx < files_.size());
        return files_[read.file_idx]->ReadAt(read.offset, read.out);
      },
      statistics_.get());
}

}  // namespace picchio
