// Sources in order of preference: what one cannot serve is read from the next.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "experts/expert_source.h"

namespace picchio {

struct TierStats {
  std::string name;
  uint64_t served = 0;    // Reads.
  uint64_t failed = 0;    // Reads that went on to the next tier, or failed for good in the last.
  uint64_t given_up = 0;  // Reads that it did not answer in time.
};

// A read that fails in one tier, for whatever reason, is submitted to the next with the same slot.
// Where no tier can serve, the read fails with the last tier's code and native error, and a message
// that lists what each of them said. A tier that owes a read which was given up is passed over
// until it has delivered. Owner thread only.
class TieredExpertSource final : public ExpertSource {
 public:
  // Told once for each tier when its first read goes on to the next, and once when it does not
  // answer; on the owner thread, from within Reap or GiveUp. May be empty.
  using Notice = std::function<void(std::string_view)>;

  // `remedy` ends the message of a read that no tier could serve: what the user can do. May be
  // empty. Fails with kInvalidArgument where there is no tier or they deliver different records.
  static Result<std::unique_ptr<TieredExpertSource>> Create(
      std::vector<std::unique_ptr<ExpertSource>> tiers, Notice notice, std::string remedy = {});

  std::span<const TierStats> tier_stats() const { return stats_; }

  const std::string& name() const override { return name_; }
  const ExpertRecordLayout& layout() const override { return tiers_[0]->layout(); }
  uint64_t slot_bytes() const override;  // The largest of the tiers'.
  bool CanFill(MemorySpace space) const override;
  size_t max_in_flight() const override { return tiers_[0]->max_in_flight(); }
  Status Attach(const MemoryChunk& chunk) override;
  void Detach(const MemoryChunk& chunk) override;
  size_t Submit(std::span<const ReadRequest> requests) override;
  size_t Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) override;
  void Cancel(uint64_t tag) override;
  bool GiveUp(uint64_t tag) override;
  void Promote(uint64_t tag) override;
  void Drain() override;

 private:
  struct Read {
    ReadRequest request;
    size_t tier = 0;      // Where it is, or waits for room.
    bool queued = false;  // In retries_.
    bool cancelled = false;
    std::optional<size_t> owed_by{};  // The tier that it was at when it was given up.
    std::string failures;             // What the tiers before said.
  };

  TieredExpertSource(std::vector<std::unique_ptr<ExpertSource>> tiers, Notice notice,
                     std::string remedy);

  // The tier for new reads: the first that answers, or the last.
  size_t FirstTier() const;
  void Forget(uint64_t tag);  // It is final.
  // Submits what waits for room; writes completions of those that were cancelled to `out`.
  size_t SubmitRetries(std::span<Completion> out);
  // Reaps one tier; keeps in `out` what is final and sends the rest on.
  size_t ReapTier(size_t tier, std::span<Completion> out, std::chrono::nanoseconds timeout);
  // Whether `completion` is final: if not, its read now waits for the next tier.
  bool Settle(size_t tier, Completion& completion);
  // Waits for any tier, at most `timeout`.
  size_t WaitForTiers(std::span<Completion> out, std::chrono::nanoseconds timeout);

  const std::vector<std::unique_ptr<ExpertSource>> tiers_;
  const Notice notice_;
  const std::string remedy_;
  const std::string name_;
  std::vector<TierStats> stats_;
  std::vector<size_t> in_tier_;               // Reads that each tier holds now,
  std::vector<size_t> owed_;                  // and those of them that were given up.
  std::unordered_map<uint64_t, Read> reads_;  // By tag: all in flight.
  std::deque<uint64_t> retries_;              // Tags of reads that no tier holds.
  size_t next_wait_ = 0;                      // Tier to wait for, where several are busy.
};

}  // namespace picchio
