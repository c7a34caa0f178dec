// Learns from the run itself after how many passes records come back, and holds those that will be
// soonest. It is the default: popular records, a text that stays with its subject and scans that
// are larger than the cache need no policies of their own, since each shows in how long records
// stay away.
//
// Records are told apart by how often they were used of late and by how many passes ago they were
// used last. For each such group it counts the uses and the record-passes without one, held or not,
// and so knows how likely a use is in the next pass: the hazard. From it follows what a slot is
// worth: the chance of a use, discounted by how long it takes. (Estimating an object's worth from
// the reuse of its like is the idea of EVA, Beckmann and Sanchez 2017, and LHD, Beckmann et al.
// 2018; here the records that are not held are seen too, as there are so few.)
//
// Each layer has its own queue for each group, in order of last use, and its own clock, so growing
// older is moving the heads of its queues on when its turn comes: a record moves at most once per
// age between two uses. A victim is of the layer's least worthy queue that is not empty: its oldest
// where worth falls with age, its youngest where it rises, as in a scan. Of all layers' the one
// goes whose worth is least, discounted by when the layer comes next.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "experts/decayed_count.h"
#include "experts/eviction_policy.h"
#include "experts/layer_order.h"
#include "experts/record_heap.h"

namespace picchio {
namespace {

// Popularity: the decayed count of uses, four classes to a doubling. 93 is the most that it can be.
constexpr size_t kClassesPerDoubling = 4;
constexpr size_t kNumClasses = 27;

// Passes since the last use: 0 to 3 each by itself, then two ages to a doubling, to 1024.
constexpr size_t kNumAges = 20;
constexpr size_t kNumGroups = kNumClasses * kNumAges;

// A slot's worth looks this many passes ahead: about as long as records stay in a cache of a
// quarter of the model. Halving or doubling it changed hits by less than a point.
constexpr double kHorizonPasses = 16;

// What is expected of a group weighs as much as so many record-passes that were seen.
constexpr double kPriorWeight = 60;

// What was seen counts half after so many passes, since texts change.
constexpr double kMemoryPasses = 512;
// Worth is computed anew in every pass at first, then in every fourth.
constexpr uint64_t kEarlyPasses = 16;
constexpr uint64_t kPassesBetween = 4;

// First pass count of an age, and of the one after the last.
double AgeBegin(size_t age) {
  return age < 4 ? static_cast<double>(age) : std::exp2(static_cast<double>(age) / 2);
}
constexpr size_t AgeOf(uint64_t passes) {
  if (passes < 4) return passes;
  const auto log2 = static_cast<size_t>(std::bit_width(passes)) - 1;
  // The upper half of a doubling begins at its lower end times the root of 2.
  const bool upper =
      static_cast<double>(passes) >= 1.4142135623730951 * static_cast<double>(uint64_t{1} << log2);
  return std::min<size_t>(2 * log2 + (upper ? 1 : 0), kNumAges - 1);
}

class ReusePolicy final : public EvictionPolicy {
 public:
  ReusePolicy() {
    for (size_t age = 0; age <= kNumAges; ++age) age_begin_[age] = AgeBegin(age);
    for (size_t i = 0; i < decay_.size(); ++i) {
      decay_[i] = std::exp2(-static_cast<double>(i) / kHalfLifePasses);
    }
    ComputeWorth();
  }

  void BeginList(int layer) override {
    const double pass_before = clock_.pass();
    clock_.BeginList(layer);
    if (clock_.pass() != pass_before) {
      const auto pass = static_cast<uint64_t>(clock_.pass());
      if (pass < kEarlyPasses || pass % kPassesBetween == 0) ComputeWorth();
    }
    now_ = LayerIdx(layer);
    ++layers_[now_].turns;
    GrowOlder(layers_[now_]);
  }

  void Use(RecordId record) override {
    Known& known = At(records_, record);
    if (known.popularity > 0) {
      const uint64_t passes = PassesSince(known);
      Learn(known.popularity_class, passes);
      known.popularity *= passes < decay_.size() ? decay_[passes] : 0;
    }
    known.popularity += 1;
    known.popularity_class = ClassOf(known.popularity);
    known.layer = now_;
    known.last_turn = layers_[now_].turns;
  }

  void Seed(RecordId record, int layer, double uses) override {
    Known& known = At(records_, record);
    known.popularity = std::max(uses, 1e-3);
    known.popularity_class = ClassOf(known.popularity);
    known.layer = LayerIdx(layer);
    known.last_turn = layers_[known.layer].turns;
  }

  void Offer(RecordId record) override {
    const Known& known = records_[record];
    Append(known.popularity_class * kNumAges + AgeOf(PassesSince(known)), record);
  }

  void Withdraw(RecordId record) override { Unlink(record); }

  std::optional<RecordId> Victim() override {
    std::optional<RecordId> victim;
    double least = 0;
    for (size_t idx = 0; idx < layers_.size(); ++idx) {
      const std::optional<size_t> rank = layers_[idx].FirstOccupied();
      if (!rank.has_value()) continue;
      const size_t group = by_worth_[*rank];
      const double worth = worth_[group] * discount_[order_.LayersUntil(idx, now_)];
      if (victim.has_value() && worth >= least) continue;
      least = worth;
      const Queue& queue = layers_[idx].queues[group];
      victim = rises_[group] ? queue.last : queue.first;
    }
    return victim;
  }

 private:
  static constexpr RecordId kNone = UINT32_MAX;

  struct Known {
    double popularity = 0;   // Decayed count of uses as of the last one; 0: never used.
    uint64_t last_turn = 0;  // Of its layer.
    uint32_t layer = 0;      // Index of layers_.
    uint32_t popularity_class = 0;
    // While offered.
    size_t group = 0;
    RecordId before = kNone;
    RecordId after = kNone;
  };
  struct Queue {
    RecordId first = kNone;  // Used longest ago.
    RecordId last = kNone;
  };
  struct Layer {
    uint64_t turns = 0;  // Lists of the layer so far.
    std::array<Queue, kNumGroups> queues{};
    // A bit for each place in by_worth_ whose queue is not empty.
    std::array<uint64_t, (kNumGroups + 63) / 64> occupied{};

    std::optional<size_t> FirstOccupied() const {
      for (size_t word = 0; word < occupied.size(); ++word) {
        if (occupied[word] != 0) {
          return 64 * word + static_cast<size_t>(std::countr_zero(occupied[word]));
        }
      }
      return std::nullopt;
    }
    void SetOccupied(size_t rank, bool is) {
      const uint64_t bit = uint64_t{1} << rank % 64;
      occupied[rank / 64] = is ? occupied[rank / 64] | bit : occupied[rank / 64] & ~bit;
    }
  };

  static uint32_t ClassOf(double popularity) {
    const double idx = std::log2(popularity) * kClassesPerDoubling;
    return static_cast<uint32_t>(std::clamp(idx, 0.0, kNumClasses - 1.0));
  }

  uint32_t LayerIdx(int layer) {
    const uint32_t layer_idx = order_.IndexOf(layer);
    if (order_.num_layers() > layers_.size()) {
      layers_.emplace_back();
      discount_.clear();
      for (size_t ahead = 0; ahead < layers_.size(); ++ahead) {
        discount_.push_back(std::exp(-static_cast<double>(ahead) /
                                     (kHorizonPasses * static_cast<double>(layers_.size()))));
      }
    }
    return layer_idx;
  }

  // Turns of the record's layer since it was used.
  uint64_t PassesSince(const Known& known) const {
    return layers_[known.layer].turns - known.last_turn;
  }

  // A record of this class was used after so many passes.
  void Learn(size_t popularity_class, uint64_t passes) {
    const size_t end = AgeOf(passes);
    const size_t base = popularity_class * kNumAges;
    for (size_t age = 0; age < end; ++age) {
      exposure_[base + age] += age_begin_[age + 1] - age_begin_[age];
    }
    exposure_[base + end] += std::max(0.0, static_cast<double>(passes) - age_begin_[end]);
    uses_[base + end] += 1;
  }

  // Moves the layer's records whose age has changed to their queues.
  void GrowOlder(Layer& layer) {
    for (size_t word = 0; word < layer.occupied.size(); ++word) {
      for (uint64_t bits = layer.occupied[word]; bits != 0; bits &= bits - 1) {
        const size_t group = by_worth_[64 * word + static_cast<size_t>(std::countr_zero(bits))];
        const size_t age = group % kNumAges;
        if (age + 1 == kNumAges) continue;
        while (layer.queues[group].first != kNone) {
          const RecordId record = layer.queues[group].first;
          const size_t age_now = AgeOf(PassesSince(records_[record]));
          if (age_now <= age) break;
          Unlink(record);
          Append(group - age + age_now, record);
        }
      }
    }
  }

  // The hazard of a group, from what was seen of it and half of what was of the classes beside it.
  double Hazard(size_t popularity_class, size_t age) const {
    double uses = 0;
    double exposure = 0;
    const auto add = [&](size_t c, double weight) {
      uses += weight * uses_[c * kNumAges + age];
      exposure += weight * exposure_[c * kNumAges + age];
    };
    add(popularity_class, 1);
    if (popularity_class > 0) add(popularity_class - 1, 0.5);
    if (popularity_class + 1 < kNumClasses) add(popularity_class + 1, 0.5);
    // Before anything is seen: as often as it was.
    const double window = std::min(clock_.pass() + 1, kHalfLifePasses / std::log(2.0));
    const double popularity =
        std::exp2((static_cast<double>(popularity_class) + 0.5) / kClassesPerDoubling);
    const double expected = std::min(popularity / (window + 4), 0.9);
    return (uses + kPriorWeight * expected) / (exposure + kPriorWeight);
  }

  void ComputeWorth() {
    const double keep = std::exp2(-static_cast<double>(kPassesBetween) / kMemoryPasses);
    for (size_t group = 0; group < kNumGroups; ++group) {
      uses_[group] *= keep;
      exposure_[group] *= keep;
    }
    for (size_t c = 0; c < kNumClasses; ++c) {
      // From the oldest age on: within an age the hazard is constant, and so is the discount, so
      // the worth at its beginning is that of a use within it and of living on to the next.
      double next = -1;
      for (size_t age = kNumAges; age-- > 0;) {
        const double hazard = Hazard(c, age);
        const double for_ever = hazard / (hazard + 1 / kHorizonPasses);
        const double passes = age_begin_[age + 1] - age_begin_[age];
        const double on = std::exp(-passes * (hazard + 1 / kHorizonPasses));
        next = next < 0 ? for_ever : for_ever * (1 - on) + on * next;
        worth_[c * kNumAges + age] = next;
        rises_[c * kNumAges + age] = age + 1 < kNumAges && next < worth_[c * kNumAges + age + 1];
      }
    }
    std::iota(by_worth_.begin(), by_worth_.end(), size_t{0});
    // Not stable_sort, which allocates.
    std::ranges::sort(by_worth_, [&](size_t a, size_t b) {
      return worth_[a] != worth_[b] ? worth_[a] < worth_[b] : a < b;
    });
    for (size_t rank = 0; rank < kNumGroups; ++rank) rank_of_[by_worth_[rank]] = rank;
    for (Layer& layer : layers_) {
      layer.occupied.fill(0);
      for (size_t group = 0; group < kNumGroups; ++group) {
        if (layer.queues[group].first != kNone) layer.SetOccupied(rank_of_[group], true);
      }
    }
  }

  void Append(size_t group, RecordId record) {
    Known& known = records_[record];
    Layer& layer = layers_[known.layer];
    Queue& queue = layer.queues[group];
    known.group = group;
    known.before = queue.last;
    known.after = kNone;
    if (queue.last == kNone) {
      queue.first = record;
      layer.SetOccupied(rank_of_[group], true);
    } else {
      records_[queue.last].after = record;
    }
    queue.last = record;
  }

  void Unlink(RecordId record) {
    const Known& known = records_[record];
    Layer& layer = layers_[known.layer];
    Queue& queue = layer.queues[known.group];
    (known.before == kNone ? queue.first : records_[known.before].after) = known.after;
    (known.after == kNone ? queue.last : records_[known.after].before) = known.before;
    if (queue.first == kNone) layer.SetOccupied(rank_of_[known.group], false);
  }

  std::array<double, kNumAges + 1> age_begin_;
  std::array<double, 1024> decay_;  // 2^(-passes / half life).

  PassClock clock_;
  LayerOrder order_;
  std::vector<Layer> layers_;
  std::vector<double> discount_;  // By layers until the turn.
  uint32_t now_ = 0;              // The layer whose records are used.

  std::vector<Known> records_;
  // By group: class * kNumAges + age.
  std::array<double, kNumGroups> uses_{};
  std::array<double, kNumGroups> exposure_{};
  std::array<double, kNumGroups> worth_{};
  std::array<bool, kNumGroups> rises_{};  // Whether worth is higher at the next age.
  // Groups in order of worth, and where each stands in it.
  std::array<size_t, kNumGroups> by_worth_{};
  std::array<size_t, kNumGroups> rank_of_{};
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeReusePolicy() { return std::make_unique<ReusePolicy>(); }

}  // namespace picchio
