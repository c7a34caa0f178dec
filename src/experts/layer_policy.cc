// Layers come round in order, so a record of the layer just passed cannot be used for a whole pass,
// and one of the layer that comes next may be at once. A record that is used in a share p of the
// passes is next used, on average, 1 / p - 1 passes after its layer comes next: whichever is
// expected last goes.
#include <map>
#include <vector>

#include "experts/decayed_count.h"
#include "experts/eviction_policy.h"
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
    const size_t num_layers = offered_.size();
    // What a record that is used in every pass counts by now.
    const double all = std::min(clock_.pass() + 1, 1 / (1 - std::exp2(-1 / kHalfLifePasses)));
    for (const auto& [layer, idx] : layers_) {
      const RecordHeap& heap = offered_[idx];
      if (heap.empty()) continue;
      const double count = records_[heap.top()].count.At(clock_.pass(), kHalfLifePasses);
      const size_t ahead = (order_[idx] + num_layers - order_[now_] + num_layers - 1) % num_layers;
      const double passes =
          static_cast<double>(ahead) / static_cast<double>(num_layers) + all / (count + 1e-9);
      if (victim.has_value() && passes <= furthest) continue;
      furthest = passes;
      victim = heap.top();
    }
    return victim;
  }

 private:
  struct Known {
    size_t layer = 0;  // Index of offered_.
    DecayedCount count;
  };

  // Layers without experts do not count, so layers get their numbers as they come.
  size_t LayerIdx(int layer) {
    const auto [at, is_new] = layers_.try_emplace(layer, offered_.size());
    if (is_new) {
      offered_.emplace_back();
      order_.resize(offered_.size());
      size_t place = 0;
      for (const auto& [_, idx] : layers_) order_[idx] = place++;
    }
    return at->second;
  }

  PassClock clock_;
  std::map<int, size_t> layers_;     // To indexes of offered_.
  std::vector<size_t> order_;        // Place in a pass, by the same indexes.
  std::vector<RecordHeap> offered_;  // By layer.
  std::vector<Known> records_;
  size_t now_ = 0;  // The layer whose records are used.
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeLayerPolicy() { return std::make_unique<LayerPolicy>(); }

}  // namespace picchio
