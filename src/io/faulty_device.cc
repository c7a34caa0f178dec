#include "io/faulty_device.h"

#include <algorithm>

namespace picchio {
namespace {

class FaultyQueue final : public ReadQueue {
 public:
  FaultyQueue(std::unique_ptr<ReadQueue> inner, FaultPlan plan)
      : inner_(std::move(inner)), faults_(std::move(plan), {Code::kIoError, Code::kUnavailable}) {}

  size_t max_in_flight() const override { return inner_->max_in_flight(); }
  Status Attach(std::span<std::byte> memory) override { return inner_->Attach(memory); }
  void Detach(std::span<std::byte> memory) override { inner_->Detach(memory); }
  void Cancel(uint64_t tag) override { inner_->Cancel(tag); }
  void Promote(uint64_t tag) override { inner_->Promote(tag); }

  size_t Submit(std::span<const DeviceRead> reads) override {
    const size_t room = faults_.Room(reads.size(), max_in_flight());
    const size_t accepted = room == 0 ? 0 : inner_->Submit(reads.first(room));
    for (const DeviceRead& read : reads.first(accepted)) faults_.Accept(read.tag, read.out);
    return accepted;
  }

  size_t Reap(std::span<DeviceCompletion> out, std::chrono::nanoseconds timeout) override {
    return faults_.HandOut(
        out, timeout,
        [this](std::span<DeviceCompletion> batch, std::chrono::nanoseconds wait) {
          return inner_->Reap(batch, wait);
        },
        [](DeviceCompletion& completion, std::span<std::byte> memory, Code code) {
          completion.status = Error(code, "injected fault ({})", CodeName(code));
          std::ranges::fill(memory, std::byte{0xdb});
        });
  }

  void Drain() override {
    inner_->Drain();
    faults_.Clear();
  }

 private:
  const std::unique_ptr<ReadQueue> inner_;
  InjectedFaults<std::span<std::byte>, DeviceCompletion> faults_;
};

}  // namespace

Result<std::unique_ptr<ReadQueue>> FaultyDevice::OpenQueue() {
  PICCHIO_ASSIGN_OR_RETURN(auto inner, inner_->OpenQueue());
  FaultPlan plan = plan_;
  plan.seed += num_queues_++;
  return std::unique_ptr<ReadQueue>(new FaultyQueue(std::move(inner), std::move(plan)));
}

}  // namespace picchio
