// Reads through the operating system's page cache, several at once by threads: what works
// everywhere.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "io/block_device.h"
#include "io/device_statistics.h"
#include "io/thread_queue.h"
#include "io/transfer_faults.h"

namespace picchio {

class BufferedDevice final : public BlockDevice {
 public:
  struct Options {
    int num_threads = 8;                       // As in ThreadQueueOptions.
    size_t max_in_flight = 256;                // Likewise.
    std::shared_ptr<TransferFaults> faults{};  // For tests; null: none. Of files that Open opens.
  };

  // Fails as opening a file fails, or with kInvalidArgument where the options are below 1.
  static Result<std::unique_ptr<BufferedDevice>> Open(std::span<const Path> paths,
                                                      const Options& options);
  // The same over files that are open already, or that are no files.
  static Result<std::unique_ptr<BufferedDevice>> Create(
      std::vector<std::unique_ptr<const RandomAccessFile>> files, const Options& options);

  const std::string& name() const override { return name_; }
  size_t num_files() const override { return files_.size(); }
  uint64_t file_bytes(size_t file_idx) const override { return files_[file_idx]->size(); }
  uint64_t alignment() const override { return 1; }
  DeviceReport Report() const override;
  Result<std::unique_ptr<ReadQueue>> OpenQueue() override;

 private:
  BufferedDevice(std::vector<std::unique_ptr<const RandomAccessFile>> files,
                 const Options& options);

  std::unique_ptr<DeviceStatistics> statistics_;  // Outlives the files; null where not ours.
  const std::vector<std::unique_ptr<const RandomAccessFile>> files_;
  const Options options_;
  const std::string name_;
};

}  // namespace picchio
