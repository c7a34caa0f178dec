// A source without a medium: every read completes at once. What an engine does above it is the
// ceiling of what it can do above any storage.
#pragma once

#include <deque>
#include <string>

#include "experts/expert_source.h"

namespace picchio {

// Holds every expert. Owner thread only.
class NullExpertSource final : public ExpertSource {
 public:
  // What a read leaves in the slot: zeros (weights that compute to zero), or what was there, which
  // is what costs nothing.
  enum class Fill : uint8_t { kZeros, kNothing };

  NullExpertSource(const ExpertRecordLayout& layout, Fill fill) : layout_(layout), fill_(fill) {}

  const std::string& name() const override { return name_; }
  const ExpertRecordLayout& layout() const override { return layout_; }
  size_t max_in_flight() const override { return 1024; }
  size_t Submit(std::span<const ReadRequest> requests) override;
  size_t Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) override;
  void Cancel(uint64_t /*tag*/) override {}
  void Drain() override { tags_.clear(); }

 private:
  const std::string name_ = "null";
  const ExpertRecordLayout layout_;
  const Fill fill_;
  std::deque<uint64_t> tags_;  // Complete, not reaped.
};

}  // namespace picchio
