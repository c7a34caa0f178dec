// Records that lie in memory, for tests, benches and models small enough for it.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "experts/expert_source.h"

namespace picchio {

// Copies into the slot when the completion is reaped, in the order of submission
// (FaultyExpertSource shuffles). Owner thread only.
class MemoryExpertSource final : public ExpertSource {
 public:
  using Records = std::unordered_map<ExpertKey, std::vector<std::byte>>;

  // Fails with kInvalidArgument where a record is not of the layout's size.
  static Result<std::unique_ptr<MemoryExpertSource>> Create(const ExpertRecordLayout& layout,
                                                            Records records,
                                                            size_t max_in_flight = 64);

  const std::string& name() const override { return name_; }
  const ExpertRecordLayout& layout() const override { return layout_; }
  size_t max_in_flight() const override { return max_in_flight_; }
  size_t Submit(std::span<const ReadRequest> requests) override;
  size_t Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) override;
  void Cancel(uint64_t tag) override;
  void Drain() override { pending_.clear(); }

 private:
  struct Pending {
    ReadRequest request;
    bool cancelled = false;
  };

  MemoryExpertSource(const ExpertRecordLayout& layout, Records records, size_t max_in_flight)
      : layout_(layout), records_(std::move(records)), max_in_flight_(max_in_flight) {}

  Completion Serve(const Pending& pending);

  const std::string name_ = "memory";
  const ExpertRecordLayout layout_;
  const Records records_;
  const size_t max_in_flight_;
  std::deque<Pending> pending_;
};

}  // namespace picchio
