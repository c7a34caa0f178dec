// Least recently used. Below one pass's working set it never hits (docs/caching.md): for
// comparison.
#include <vector>

#include "experts/eviction_policy.h"
#include "experts/record_heap.h"

namespace picchio {
namespace {

class LruPolicy final : public EvictionPolicy {
 public:
  void BeginList(int /*layer*/) override {}
  void Use(RecordId record) override { At(last_use_, record) = ++uses_; }
  void Seed(RecordId record, int /*layer*/, double /*uses*/) override { At(last_use_, record) = 0; }
  void Offer(RecordId record) override { offered_.Push(record, last_use_[record]); }
  void Withdraw(RecordId record) override { offered_.Remove(record); }
  std::optional<RecordId> Victim() override {
    return offered_.empty() ? std::nullopt : std::optional(offered_.top());
  }

 private:
  double uses_ = 0;               // Of all records.
  std::vector<double> last_use_;  // By record: uses_ then. Whole numbers.
  RecordHeap offered_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeLruPolicy() { return std::make_unique<LruPolicy>(); }

}  // namespace picchio
