// A source that goes wrong on purpose: failures, delays, disorder and reluctance over another one.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

#include "experts/expert_source.h"

namespace picchio {

// Which faults; all rates are in [0, 1] and drawn from the seed alone, so that a run repeats.
struct FaultPlan {
  uint64_t seed = 1;
  // Reads that fail, with one of `codes`.
  double fail_rate = 0;
  std::vector<Code> codes = {Code::kNotFound, Code::kCorrupt, Code::kIoError, Code::kUnavailable};
  // Reads that fail whatever the rate: by their number, counted from 0 as they are accepted.
  std::map<uint64_t, Code> fail_reads{};
  // Completions that are held back, and for how long.
  double delay_rate = 0;
  std::chrono::nanoseconds delay{0};
  // Calls of Submit that take a random part of what there is room for.
  double refuse_rate = 0;
  // Completions come in random order and random numbers.
  bool shuffle = false;
};

// Reads that fail leave garbage in the slot, as a device may. Ignores cuts. Owner thread only.
class FaultyExpertSource final : public ExpertSource {
 public:
  FaultyExpertSource(std::unique_ptr<ExpertSource> inner, FaultPlan plan)
      : inner_(std::move(inner)), plan_(std::move(plan)), random_(plan_.seed) {}

  uint64_t num_injected() const { return num_injected_; }  // Failures handed out in place of OK.

  const std::string& name() const override { return inner_->name(); }
  const ExpertRecordLayout& layout() const override { return inner_->layout(); }
  uint64_t slot_bytes() const override { return inner_->slot_bytes(); }
  bool CanFill(MemorySpace space) const override { return inner_->CanFill(space); }
  size_t max_in_flight() const override { return inner_->max_in_flight(); }
  Status Attach(const MemoryChunk& chunk) override { return inner_->Attach(chunk); }
  void Detach(const MemoryChunk& chunk) override { inner_->Detach(chunk); }
  size_t Submit(std::span<const ReadRequest> requests) override;
  size_t Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) override;
  void Cancel(uint64_t tag) override { inner_->Cancel(tag); }
  void Promote(uint64_t tag) override { inner_->Promote(tag); }
  void Drain() override;

 private:
  using Clock = std::chrono::steady_clock;

  struct Read {
    ExpertKey key;
    std::byte* data = nullptr;
    std::optional<Code> fault{};  // Decided when accepted: independent of the order of completion.
    bool delayed = false;
  };

  struct Held {
    Completion completion;
    Clock::time_point release;
  };

  bool Draw(double rate);
  // Takes what the inner source has completed, waiting for it at most `timeout`.
  void TakeFromInner(std::chrono::nanoseconds timeout);
  size_t HandOut(std::span<Completion> out);

  const std::unique_ptr<ExpertSource> inner_;
  const FaultPlan plan_;
  std::mt19937_64 random_;
  uint64_t num_accepted_ = 0;
  uint64_t num_injected_ = 0;
  std::unordered_map<uint64_t, Read> reads_;  // By tag: all not handed out yet.
  std::vector<Held> held_;                    // Completed below, not handed out.
};

}  // namespace picchio
