// A device that goes wrong on purpose: failures, delays, disorder and reluctance over another one.
// What happens to single requests of a read, below its queue, is transfer_faults.h's.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/block_device.h"

namespace picchio {

// Rates are in [0, 1] and drawn from the seed alone, so that a run repeats: read by read in the
// order in which a queue accepts them, the n-th queue of a device with seed + n.
struct DeviceFaultPlan {
  uint64_t seed = 1;
  // Reads that fail, with one of `codes`.
  double fail_rate = 0;
  std::vector<Code> codes = {Code::kIoError, Code::kUnavailable};
  // Reads that fail whatever the rate: by their number, counted from 0.
  std::map<uint64_t, Code> fail_reads{};
  // Completions that are held back, and for how long: far beyond a caller's patience it is a device
  // that has stopped answering.
  double delay_rate = 0;
  std::chrono::nanoseconds delay{0};
  // Calls of Submit that take a random part of what there is room for.
  double refuse_rate = 0;
  // Completions come in random order and random numbers.
  bool shuffle = false;
};

// Memory of a read that fails holds garbage, as after a device's failure. A completion that is held
// back keeps its memory until it is reaped, or until Drain or the destructor, which do not wait for
// the delay: the device below is done by then.
class FaultyDevice final : public BlockDevice {
 public:
  FaultyDevice(std::unique_ptr<BlockDevice> inner, DeviceFaultPlan plan)
      : inner_(std::move(inner)), plan_(std::move(plan)) {}

  const std::string& name() const override { return inner_->name(); }
  size_t num_files() const override { return inner_->num_files(); }
  uint64_t file_bytes(size_t file_idx) const override { return inner_->file_bytes(file_idx); }
  uint64_t alignment() const override { return inner_->alignment(); }
  DeviceReport Report() const override { return inner_->Report(); }
  Result<std::unique_ptr<ReadQueue>> OpenQueue() override;

 private:
  const std::unique_ptr<BlockDevice> inner_;
  const DeviceFaultPlan plan_;
  std::atomic<uint64_t> num_queues_{0};
};

}  // namespace picchio
