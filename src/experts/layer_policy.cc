// Layers come round in order, so a record of the layer just passed cannot be used for a whole pass,
// and one of the layer that comes next may be at once. A record that is used in a share p of the
// passes is next used, on average, 1 / p - 1 passes after its layer comes next: whichever is
// expected last goes.
#include <vector>

#include "experts/decayed_count.h"
#include "experts/eviction_policy.h"
#include "experts/layer_order.h"
#include "experts/record_heap.h"

namespace picchio {
namespace {

class LayerPolicy final : public EvictionPolicy {
 public:
  void BeginList(int layer) override {
    clock_.BeginList(layer);
    now_ = LayerIdx(layer);
  }
  void Use(RecordId record) override {
    Known& known = At(records_, record);
    known.layer = now_;
    known.count.Add(clock_.pass(), kHalfLifePasses);
  }
  void Seed(RecordId record, int layer, double uses) override {
    Known& known = At(records_, record);
    known.layer = LayerIdx(layer);
    known.count.Add(clock_.pass(), kHalfLifePasses, uses);
  }
  void Offer(RecordId record) override {
    const Known& known = records_[record];
    offered_[known.layer].Push(record, known.count.rank());
  }
  void Withdraw(RecordId record) override { offered_[records_[record].layer].Remove(record); }

  // In each layer the rarest record is expected last, so only those compete.
  std::optional<RecordId> Victim() override {
    std::optional<RecordId> victim;
    double furthest = 0;
    // What a record that is used in every pass counts by now.
    const double all = std::min(clock_.pass() + 1, 1 / (1 - std::exp2(-1 / kHalfLifePasses)));
    for (size_t idx = 0; idx < offered_.size(); ++idx) {
      const RecordHeap& heap = offered_[idx];
      if (heap.empty()) continue;
      const double count = records_[heap.top()].count.At(clock_.pass(), kHalfLifePasses);
      const double passes = static_cast<double>(order_.LayersUntil(idx, now_)) /
                                static_cast<double>(offered_.size()) +
                            all / (count + 1e-9);
      if (victim.has_value() && passes <= furthest) continue;
      furthest = passes;
      victim = heap.top();
    }
    return victim;
  }

 private:
  struct Known {
    size_t layer = 0;  // Its index.
    DecayedCount count;
  };

  size_t LayerIdx(int layer) {
    const size_t idx = order_.IndexOf(layer);
    offered_.resize(order_.num_layers());
    return idx;
  }

  PassClock clock_;
  LayerOrder order_;
  std::vector<RecordHeap> offered_;  // By layer index.
  std::vector<Known> records_;
  size_t now_ = 0;  // The layer whose records are used.
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeLayerPolicy() { return std::make_unique<LayerPolicy>(); }

}  // namespace picchio
