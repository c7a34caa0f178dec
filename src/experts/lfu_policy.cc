// Least often used, where a use counts half after kHalfLifePasses. Counts outlive eviction.
#include <vector>

#include "experts/decayed_count.h"
#include "experts/eviction_policy.h"
#include "experts/record_heap.h"

namespace picchio {
namespace {

class LfuPolicy final : public EvictionPolicy {
 public:
  void BeginList(int layer) override { clock_.BeginList(layer); }
  void Use(RecordId record) override { At(counts_, record).Add(clock_.pass(), kHalfLifePasses); }
  void Seed(RecordId record, int /*layer*/, double uses) override {
    At(counts_, record).Add(clock_.pass(), kHalfLifePasses, uses);
  }
  void Offer(RecordId record) override { offered_.Push(record, counts_[record].rank()); }
  void Withdraw(RecordId record) override { offered_.Remove(record); }
  std::optional<RecordId> Victim() override {
    return offered_.empty() ? std::nullopt : std::optional(offered_.top());
  }

 private:
  PassClock clock_;
  std::vector<DecayedCount> counts_;
  RecordHeap offered_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeLfuPolicy() { return std::make_unique<LfuPolicy>(); }

}  // namespace picchio
