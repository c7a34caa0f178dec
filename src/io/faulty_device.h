// A device that goes wrong on purpose: failures, delays, disorder and reluctance over another one.
// What happens to single requests of a read, below its queue, is transfer_faults.h's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/injected_faults.h"
#include "io/block_device.h"

namespace picchio {

// The n-th queue of a device draws from seed + n. Memory of a read that fails holds garbage, as
// after a device's failure. A completion that is held back keeps its memory until it is reaped, or
// until Drain or the destructor, which do not wait for the delay: the device below is done by then.
class FaultyDevice final : public BlockDevice {
 public:
  FaultyDevice(std::unique_ptr<BlockDevice> inner, FaultPlan plan)
      : inner_(std::move(inner)), plan_(std::move(plan)) {}

  const std::string& name() const override { return inner_->name(); }
  size_t num_files() const override { return inner_->num_files(); }
  uint64_t file_bytes(size_t file_idx) const override { return inner_->file_bytes(file_idx); }
  uint64_t alignment() const override { return inner_->alignment(); }
  DeviceReport Report() const override { return inner_->Report(); }
  Result<std::unique_ptr<ReadQueue>> OpenQueue() override;

 private:
  const std::unique_ptr<BlockDevice> inner_;
  const FaultPlan plan_;
  std::atomic<uint64_t> num_queues_{0};
};

}  // namespace picchio
