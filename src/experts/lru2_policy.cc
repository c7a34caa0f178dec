// LRU-2 (O'Neil, O'Neil and Weikum, 1993): the last use but one tells how often a record is used,
// the last one alone only that it was. Records with a single use go first, the oldest of them
// first.
#include <vector>

#include "experts/eviction_policy.h"
#include "experts/record_heap.h"

namespace picchio {
namespace {

class Lru2Policy final : public EvictionPolicy {
 public:
  void BeginList(int /*layer*/) override {}
  void Use(RecordId record) override {
    Uses& uses = At(uses_, record);
    uses.before = uses.last;
    uses.last = ++num_uses_;
  }
  void Seed(RecordId record, int /*layer*/, double /*uses*/) override { At(uses_, record) = {}; }
  void Offer(RecordId record) override {
    const Uses& uses = uses_[record];
    offered_.Push(record, uses.before > 0 ? uses.before : uses.last - kOnce);
  }
  void Withdraw(RecordId record) override { offered_.Remove(record); }
  std::optional<RecordId> Victim() override {
    return offered_.empty() ? std::nullopt : std::optional(offered_.top());
  }

 private:
  static constexpr double kOnce = 0x1p52;  // More than there are uses, and still exact below.

  struct Uses {
    double last = 0;  // num_uses_ then; 0: never.
    double before = 0;
  };

  double num_uses_ = 0;
  std::vector<Uses> uses_;
  RecordHeap offered_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeLru2Policy() { return std::make_unique<Lru2Policy>(); }

}  // namespace picchio
