// Reads past the operating system's page cache, several at once by threads: no second copy of the
// bytes, in no cache that fights with ours.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/block_device.h"
#include "io/device_file.h"
#include "io/thread_queue.h"

namespace picchio {

// A file that cannot be read so is read buffered, and so is a read that failed; the report says
// which and why. Block devices are read as files are.
class DirectDevice final : public BlockDevice {
 public:
  struct Options {
    int num_threads = 8;         // As in ThreadQueueOptions.
    size_t max_in_flight = 256;  // Likewise.
    // What the caller's reads can keep to: the block size of a store. A file that needs more is
    // read buffered.
    uint64_t max_alignment = 64_KiB;
    uint64_t max_request_bytes = kMaxRequestBytes;  // Less is for tests.
    std::shared_ptr<TransferFaults> faults{};       // For tests; null: none.
  };

  // Fails as opening a file fails, or with kInvalidArgument where the options are below 1.
  static Result<std::unique_ptr<DirectDevice>> Open(std::span<const Path> paths,
                                                    const Options& options);

  const std::string& name() const override { return name_; }
  size_t num_files() const override { return files_.size(); }
  uint64_t file_bytes(size_t file_idx) const override { return files_[file_idx]->size(); }
  uint64_t alignment() const override { return alignment_; }
  DeviceReport Report() const override { return statistics_.Report(); }
  Result<std::unique_ptr<ReadQueue>> OpenQueue() override;

 private:
  explicit DirectDevice(const Options& options) : options_(options) {}

  const Options options_;
  DeviceStatistics statistics_;
  std::vector<std::unique_ptr<DeviceFile>> files_;
  std::string name_;
  uint64_t alignment_ = 1;
};

}  // namespace picchio
