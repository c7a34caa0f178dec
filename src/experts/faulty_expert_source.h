// A source that goes wrong on purpose: failures, delays, disorder and reluctance over another one.
#pragma once

#include <memory>
#include <utility>

#include "base/injected_faults.h"
#include "experts/expert_source.h"

namespace picchio {

// Reads that fail leave garbage in the slot, as a device may. Owner thread only.
class FaultyExpertSource final : public ExpertSource {
 public:
  FaultyExpertSource(std::unique_ptr<ExpertSource> inner, FaultPlan plan);

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
  bool GiveUp(uint64_t tag) override { return inner_->GiveUp(tag); }
  void Promote(uint64_t tag) override { inner_->Promote(tag); }
  void Drain() override;

 private:
  struct Read {
    ExpertKey key;
    std::byte* data = nullptr;
  };

  const std::unique_ptr<ExpertSource> inner_;
  InjectedFaults<Read, Completion> faults_;
  uint64_t num_injected_ = 0;
};

}  // namespace picchio
