#include "io/faulty_device.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <thread>
#include <unordered_map>

namespace picchio {
namespace {

class FaultyQueue final : public ReadQueue {
 public:
  FaultyQueue(std::unique_ptr<ReadQueue> inner, const DeviceFaultPlan& plan, uint64_t seed)
      : inner_(std::move(inner)), plan_(plan), random_(seed) {}

  size_t max_in_flight() const override { return inner_->max_in_flight(); }
  Status Attach(std::span<std::byte> memory) override { return inner_->Attach(memory); }
  void Detach(std::span<std::byte> memory) override { inner_->Detach(memory); }
  void Cancel(uint64_t tag) override { inner_->Cancel(tag); }
  void Promote(uint64_t tag) override { inner_->Promote(tag); }

  size_t Submit(std::span<const DeviceRead> reads) override {
    // Those that are held back here have left the inner queue, but not this one.
    size_t room = std::min(reads.size(), max_in_flight() - reads_.size());
    if (room > 0 && Draw(plan_.refuse_rate)) {
      const size_t least = reads_.empty() ? 1 : 0;
      room = least + random_() % (room + 1 - least);
    }
    const size_t accepted = room == 0 ? 0 : inner_->Submit(reads.first(room));
    for (const DeviceRead& request : reads.first(accepted)) {
      Read read{.out = request.out};
      if (Draw(plan_.fail_rate) && !plan_.codes.empty()) {
        read.fault = plan_.codes[random_() % plan_.codes.size()];
      }
      if (const auto at = plan_.fail_reads.find(num_accepted_); at != plan_.fail_reads.end()) {
        read.fault = at->second;
      }
      read.delayed = Draw(plan_.delay_rate);
      reads_.emplace(request.tag, read);
      ++num_accepted_;
    }
    return accepted;
  }

  size_t Reap(std::span<DeviceCompletion> out, std::chrono::nanoseconds timeout) override {
    if (out.empty()) return 0;
    const Deadline deadline(timeout);
    for (;;) {
      TakeFromInner(std::chrono::nanoseconds(0));
      const size_t count = HandOut(out);
      if (count > 0 || reads_.empty() || deadline.passed()) return count;
      std::chrono::nanoseconds wait = deadline.left();
      for (const Held& held : held_) {
        wait = std::min<std::chrono::nanoseconds>(wait, held.release - Clock::now());
      }
      if (reads_.size() > held_.size()) {
        TakeFromInner(wait);
      } else {
        std::this_thread::sleep_for(wait);
      }
    }
  }

  void Drain() override {
    inner_->Drain();
    held_.clear();
    reads_.clear();
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Read {
    std::span<std::byte> out;
    std::optional<Code> fault{};  // Decided when accepted: independent of the order of completion.
    bool delayed = false;
  };

  struct Held {
    DeviceCompletion completion;
    Clock::time_point release;
  };

  bool Draw(double rate) {
    // 53 bits fill a double exactly: the same draws on every platform.
    return rate > 0 && static_cast<double>(random_() >> 11) * 0x1p-53 < rate;
  }

  // Takes what the inner queue has completed, waiting for it at most `timeout`.
  void TakeFromInner(std::chrono::nanoseconds timeout) {
    DeviceCompletion batch[16];
    size_t count;
    do {
      count = inner_->Reap(batch, timeout);
      timeout = std::chrono::nanoseconds(0);
      for (DeviceCompletion& completion : std::span(batch).first(count)) {
        const Read& read = reads_.at(completion.tag);
        if (completion.status.ok() && read.fault) {
          completion.status = Error(*read.fault, "injected fault ({})", CodeName(*read.fault));
          std::ranges::fill(read.out, std::byte{0xdb});
        }
        const Clock::time_point now = Clock::now();
        held_.push_back({std::move(completion), read.delayed ? now + plan_.delay : now});
      }
    } while (count == std::size(batch));
  }

  size_t HandOut(std::span<DeviceCompletion> out) {
    const Clock::time_point now = Clock::now();
    std::vector<size_t> due;
    for (size_t i = 0; i < held_.size(); ++i) {
      if (held_[i].release <= now) due.push_back(i);
    }
    size_t count = std::min(out.size(), due.size());
    if (plan_.shuffle && count > 0) {
      for (size_t i = due.size() - 1; i > 0; --i) std::swap(due[i], due[random_() % (i + 1)]);
      count = 1 + random_() % count;
    }
    for (size_t i = 0; i < count; ++i) {
      out[i] = std::move(held_[due[i]].completion);
      reads_.erase(out[i].tag);
    }
    std::sort(due.begin(), due.begin() + static_cast<ptrdiff_t>(count), std::greater<>());
    for (size_t i = 0; i < count; ++i) held_.erase(held_.begin() + static_cast<ptrdiff_t>(due[i]));
    return count;
  }

  const std::unique_ptr<ReadQueue> inner_;
  const DeviceFaultPlan& plan_;
  std::mt19937_64 random_;
  uint64_t num_accepted_ = 0;
  std::unordered_map<uint64_t, Read> reads_;  // By tag: all not handed out yet.
  std::vector<Held> held_;                    // Completed below, not handed out.
};

}  // namespace

Result<std::unique_ptr<ReadQueue>> FaultyDevice::OpenQueue() {
  PICCHIO_ASSIGN_OR_RETURN(auto inner, inner_->OpenQueue());
  return std::unique_ptr<ReadQueue>(
      new FaultyQueue(std::move(inner), plan_, plan_.seed + num_queues_++));
}

}  // namespace picchio
