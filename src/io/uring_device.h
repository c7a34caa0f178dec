// Reads past the page cache through io_uring: many at the device from one thread, none of them
// waited for one by one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/block_device.h"
#include "io/device_file.h"
#include "io/thread_queue.h"
#include "io/uring_queue.h"

namespace picchio {

// Where no io_uring can be had, its queues are threads that read past the page cache (as those of
// DirectDevice); where a file cannot be read so, it is read buffered. The report says which and
// why.
class UringDevice final : public BlockDevice {
 public:
  struct Options {
    UringQueueOptions queue{};
    ThreadQueueOptions threads{};     // Of the queues that stand in.
    uint64_t max_alignment = 64_KiB;  // As in DirectDevice.
  };

  // Fails as opening a file fails, or with kInvalidArgument where the options are below 1.
  static Result<std::unique_ptr<UringDevice>> Open(std::span<const Path> paths,
                                                   const Options& options);

  // Why there is no io_uring; OK where there is.
  const Status& ring_status() const { return ring_status_; }

  const std::string& name() const override { return name_; }
  size_t num_files() const override { return files_.size(); }
  uint64_t file_bytes(size_t file_idx) const override { return files_[file_idx]->size(); }
  uint64_t alignment() const override { return alignment_; }
  DeviceReport Report() const override { return statistics_.Report(); }
  Result<std::unique_ptr<ReadQueue>> OpenQueue() override;

 private:
  explicit UringDevice(const Options& options) : options_(options) {}

  const Options options_;
  DeviceStatistics statistics_;
  std::vector<std::unique_ptr<DeviceFile>> files_;
  std::string name_;
  uint64_t alignment_ = 1;
  Status ring_status_{};
};

}  // namespace picchio
