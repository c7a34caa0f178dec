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
// A group is a queue in order of last use, so growing older is moving the heads on: a record moves
// at most once per age between two uses. A victim is of the least worthy queue that is not empty:
// its oldest where worth falls with age, its youngest where it rises, as in a scan.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "experts/decayed_count.h"
#include "experts/eviction_policy.h"
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
constexpr double kPriorWeight = 10;

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
    queues_.fill({});
    ComputeWorth();
  }

  void BeginList(int layer) override {
    ++now_;
    const double pass_before = clock_.pass();
    clock_.BeginList(layer);
    if (clock_.pass() != pass_before) {
      lists_per_pass_ = now_ - pass_began_;
      pass_began_ = now_;
      const auto pass = static_cast<uint64_t>(clock_.pass());
      if (pass < kEarlyPasses || pass % kPassesBetween == 0) ComputeWorth();
    }
    GrowOlder();
  }

  void Use(RecordId record) override {
    Known& known = At(records_, record);
    if (known.popularity > 0) {
      const uint64_t passes = PassesSince(known.last_use);
      Learn(known.popularity_class, passes);
      known.popularity *= passes < decay_.size() ? decay_[passes] : 0;
    }
    known.popularity += 1;
    known.popularity_class = ClassOf(known.popularity);
    known.last_use = now_;
  }

  void Seed(RecordId record, int /*layer*/, double uses) override {
    Known& known = At(records_, record);
    known.popularity = std::max(uses, 1e-3);
    known.popularity_class = ClassOf(known.popularity);
    known.last_use = now_;
  }

  void Offer(RecordId record) override {
    Known& known = records_[record];
    Append(known.popularity_class * kNumAges + AgeOf(PassesSince(known.last_use)), record);
  }

  void Withdraw(RecordId record) override { Unlink(record); }

  std::optional<RecordId> Victim() override {
    for (size_t word = 0; word < occupied_.size(); ++word) {
      if (occupied_[word] == 0) continue;
      const size_t rank = 64 * word + static_cast<size_t>(std::countr_zero(occupied_[word]));
      const size_t group = by_worth_[rank];
      return rises_[group] ? queues_[group].last : queues_[group].first;
    }
    return std::nullopt;
  }

 private:
  static constexpr RecordId kNone = UINT32_MAX;

  struct Known {
    double popularity = 0;  // Decayed count of uses as of the last one; 0: never used.
    uint64_t last_use = 0;  // now_ then.
    size_t popularity_class = 0;
    // While offered.
    size_t group = 0;
    RecordId before = kNone;
    RecordId after = kNone;
  };
  struct Queue {
    RecordId first = kNone;  // Used longest ago.
    RecordId last = kNone;
  };

  static size_t ClassOf(double popularity) {
    const double idx = std::log2(popularity) * kClassesPerDoubling;
    return static_cast<size_t>(std::clamp(idx, 0.0, kNumClasses - 1.0));
  }

  // How many of its layer's turns have begun since: all lists of a pass count alike.
  uint64_t PassesSince(uint64_t list) const { return (now_ - list) / lists_per_pass_; }

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

  // Moves the records whose age has changed to their queues.
  void GrowOlder() {
    for (size_t word = 0; word < occupied_.size(); ++word) {
      for (uint64_t bits = occupied_[word]; bits != 0; bits &= bits - 1) {
        const size_t group = by_worth_[64 * word + static_cast<size_t>(std::countr_zero(bits))];
        const size_t age = group % kNumAges;
        if (age + 1 == kNumAges) continue;
        while (queues_[group].first != kNone) {
          const RecordId record = queues_[group].first;
          const size_t age_now = AgeOf(PassesSince(records_[record].last_use));
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
    std::array<double, kNumGroups> worth;
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
        worth[c * kNumAges + age] = next;
        rises_[c * kNumAges + age] = age + 1 < kNumAges && next < worth[c * kNumAges + age + 1];
      }
    }
    std::iota(by_worth_.begin(), by_worth_.end(), size_t{0});
    std::ranges::stable_sort(by_worth_, {}, [&](size_t group) { return worth[group]; });
    occupied_.fill(0);
    for (size_t rank = 0; rank < kNumGroups; ++rank) {
      rank_of_[by_worth_[rank]] = rank;
      if (queues_[by_worth_[rank]].first != kNone) SetOccupied(rank, true);
    }
  }

  void SetOccupied(size_t rank, bool occupied) {
    const uint64_t bit = uint64_t{1} << rank % 64;
    if (occupied) {
      occupied_[rank / 64] |= bit;
    } else {
      occupied_[rank / 64] &= ~bit;
    }
  }

  void Append(size_t group, RecordId record) {
    Queue& queue = queues_[group];
    Known& known = records_[record];
    known.group = group;
    known.before = queue.last;
    known.after = kNone;
    if (queue.last == kNone) {
      queue.first = record;
      SetOccupied(rank_of_[group], true);
    } else {
      records_[queue.last].after = record;
    }
    queue.last = record;
  }

  void Unlink(RecordId record) {
    const Known& known = records_[record];
    Queue& queue = queues_[known.group];
    (known.before == kNone ? queue.first : records_[known.before].after) = known.after;
    (known.after == kNone ? queue.last : records_[known.after].before) = known.before;
    if (queue.first == kNone) SetOccupied(rank_of_[known.group], false);
  }

  std::array<double, kNumAges + 1> age_begin_;
  std::array<double, 1024> decay_;  // 2^(-passes / half life).

  PassClock clock_;
  uint64_t now_ = 0;  // Lists so far: a finer clock than passes, for telling whose turn has come.
  uint64_t pass_began_ = 1;
  uint64_t lists_per_pass_ = 1;

  std::vector<Known> records_;
  // By group: class * kNumAges + age.
  std::array<double, kNumGroups> uses_{};
  std::array<double, kNumGroups> exposure_{};
  std::array<Queue, kNumGroups> queues_;
  std::array<bool, kNumGroups> rises_{};  // Whether worth is higher at the next age.
  // Groups in order of worth, where each stands in it, and a bit for each place whose queue is not
  // empty.
  std::array<size_t, kNumGroups> by_worth_{};
  std::array<size_t, kNumGroups> rank_of_{};
  std::array<uint64_t, (kNumGroups + 63) / 64> occupied_{};
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeReusePolicy() { return std::make_unique<ReusePolicy>(); }

}  // namespace picchio
