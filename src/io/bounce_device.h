// Reads at any byte from a device that reads at multiples only: through buffers of its own, and one
// copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/units.h"
#include "io/block_device.h"

namespace picchio {

// For who has bytes at arbitrary places, as the safetensors container has, and wants them past the
// page cache. Each queue has its buffers; a read that is larger than one comes in pieces. The copy
// is made within Reap, by the queue's owner.
class BounceDevice final : public BlockDevice {
 public:
  struct Options {
    uint64_t buffer_bytes = 1_MiB;  // A multiple of the device's alignment, and at least twice it.
    size_t num_buffers = 32;        // Of each queue: pieces at the device at once. At least 1.
  };

  // Fails with kInvalidArgument for such options.
  static Result<std::unique_ptr<BounceDevice>> Create(std::unique_ptr<BlockDevice> inner,
                                                      const Options& options);

  const std::string& name() const override { return inner_->name(); }
  size_t num_files() const override { return inner_->num_files(); }
  uint64_t file_bytes(size_t file_idx) const override { return inner_->file_bytes(file_idx); }
  uint64_t alignment() const override { return 1; }
  DeviceReport Report() const override { return inner_->Report(); }
  // Fails with kResourceExhausted too where there is no memory for its buffers.
  Result<std::unique_ptr<ReadQueue>> OpenQueue() override;

 private:
  BounceDevice(std::unique_ptr<BlockDevice> inner, const Options& options)
      : inner_(std::move(inner)), options_(options) {}

  const std::unique_ptr<BlockDevice> inner_;
  const Options options_;
};

}  // namespace picchio
