#include "experts/cache_simulator.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "experts/trace_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using Held = std::set<ExpertKey>;

// The most hits from list `i` on, by trying everything that a cache could do: it must hold the list
// as far as it can and may drop anything else.
uint64_t BestByTrial(const AccessTrace& trace, size_t num_slots, size_t i, const Held& held,
                     std::map<std::pair<size_t, Held>, uint64_t>& known) {
  if (i == trace.lists.size()) return 0;
  const auto found = known.find({i, held});
  if (found != known.end()) return found->second;
  Held list;
  uint64_t hits = 0;
  for (const int32_t expert : trace.lists[i].experts) {
    list.insert({trace.lists[i].layer, expert});
    hits += held.contains({trace.lists[i].layer, expert}) ? 1 : 0;
  }
  std::vector<ExpertKey> choice;
  Held fixed;
  if (list.size() <= num_slots) {
    fixed = list;
    std::ranges::set_difference(held, list, std::back_inserter(choice));
  } else {
    std::ranges::set_union(held, list, std::back_inserter(choice));
  }
  uint64_t best = 0;
  for (uint32_t chosen = 0; chosen < 1U << choice.size(); ++chosen) {
    Held next = fixed;
    for (size_t k = 0; k < choice.size(); ++k) {
      if (chosen >> k & 1) next.insert(choice[k]);
    }
    if (next.size() > num_slots) continue;
    best = std::max(best, BestByTrial(trace, num_slots, i + 1, next, known));
  }
  known[{i, held}] = hits + best;
  return hits + best;
}

TEST(OptimalHits, IsWhatTryingEverythingFinds) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    AccessTrace trace{.header = HeaderOf({.layers = 2, .experts = 4}), .lists = {}};
    for (int i = 0; i < 9; ++i) {
      std::vector<int32_t> all = {0, 1, 2, 3};
      std::shuffle(all.begin(), all.end(), random);
      all.resize(1 + random() % 3);
      trace.lists.push_back({.layer = i % 2, .experts = all});
    }
    for (size_t num_slots = 1; num_slots <= 5; ++num_slots) {
      std::map<std::pair<size_t, Held>, uint64_t> known;
      EXPECT_EQ(OptimalHits(trace, num_slots), BestByTrial(trace, num_slots, 0, {}, known));
    }
  }
}

TEST(SimulateHits, NoPolicyBeatsTheOptimumAndAllReachItWhereEverythingFits) {
  const AccessTrace trace = MakeRouting({.skew = 0.8, .locality = 0.3});
  for (const CachePolicy policy : kCachePolicies) {
    uint64_t before = 0;
    for (const size_t slots : {2u, 5u, 16u, 64u, 127u}) {
      const uint64_t hits = SimulateHits(trace, {.num_positions = slots, .policy = policy});
      EXPECT_LE(hits, OptimalHits(trace, slots)) << CachePolicyName(policy) << " " << slots;
      EXPECT_GE(hits, before) << CachePolicyName(policy) << " " << slots;
      before = hits;
    }
    EXPECT_EQ(SimulateHits(trace, {.num_positions = 128, .policy = policy}),
              OptimalHits(trace, 128));
  }
}

// What the least recently used list gives, by the plainest of models.
TEST(SimulateHits, LruIsLru) {
  const AccessTrace trace = MakeRouting({.skew = 0.5, .locality = 0.4});
  for (const size_t slots : {4u, 20u, 60u}) {
    std::vector<ExpertKey> keys;  // Oldest first.
    uint64_t hits = 0;
    for (const AccessTrace::List& list : trace.lists) {
      std::vector<ExpertKey> now;
      for (const int32_t expert : list.experts) {
        const ExpertKey key{list.layer, expert};
        hits += std::erase(keys, key);
        now.push_back(key);
      }
      keys.insert(keys.end(), now.begin(), now.end());
      if (keys.size() > slots) keys.erase(keys.begin(), keys.end() - static_cast<ptrdiff_t>(slots));
    }
    EXPECT_EQ(SimulateHits(trace, {.num_positions = slots, .policy = CachePolicy::kLru}), hits);
  }
}

// A layer's own slots serve it alone: the hits are those of each layer by itself.
TEST(SimulateHits, PartsDoNotShare) {
  const AccessTrace trace = MakeRouting({.skew = 0.8});
  for (const CachePolicy policy : {CachePolicy::kLru, CachePolicy::kLru2}) {
    uint64_t apart = 0;
    for (int layer = 0; layer < 4; ++layer) {
      AccessTrace one{.header = trace.header, .lists = {}};
      for (const AccessTrace::List& list : trace.lists) {
        if (list.layer == layer) one.lists.push_back(list);
      }
      apart += SimulateHits(one, {.num_positions = 6, .policy = policy});
    }
    EXPECT_EQ(
        SimulateHits(trace, {.num_positions = 24, .policy = policy, .positions_per_layer = 6}),
        apart);
  }
}

// No cliff: on a scan in a circle of W records with c slots the cache keeps most of what it can
// hold. Counted once it has gone round five times, having learnt where it is.
TEST(DefaultPolicy, HoldsOnToPartOfAScan) {
  for (const RoutingOptions& options :
       {RoutingOptions{.layers = 1, .experts = 256, .experts_per_token = 8, .passes = 32 * 45},
        RoutingOptions{.layers = 12, .experts = 64, .experts_per_token = 4, .passes = 16 * 45},
        RoutingOptions{.layers = 48, .experts = 16, .experts_per_token = 2, .passes = 8 * 45}}) {
    const AccessTrace trace = MakeScan(options);
    AccessTrace start = trace;
    start.lists.resize(trace.lists.size() / 9);
    const double records = static_cast<double>(trace.header.num_records);
    for (const double share : {0.06, 0.12, 0.25, 0.5, 0.75, 0.9}) {
      const auto slots = static_cast<size_t>(share * records);
      const CacheDirectory::Options cache{.num_positions = slots};
      const uint64_t hits = SimulateHits(trace, cache) - SimulateHits(start, cache);
      const uint64_t demands = trace.num_demands() - start.num_demands();
      EXPECT_GE(static_cast<double>(hits) / static_cast<double>(demands),
                0.9 * static_cast<double>(slots - options.experts_per_token) / records)
          << options.layers << " layers, " << slots << " slots";
    }
  }
}

// Hits in the second half of a cache that never changes what it holds: the experts that the first
// half used most, beside room for a list to pass through.
uint64_t StaticHits(const AccessTrace& trace, size_t slots) {
  const size_t half = trace.lists.size() / 2;
  std::map<ExpertKey, int64_t> uses;
  for (size_t i = 0; i < half; ++i) {
    for (const int32_t expert : trace.lists[i].experts) ++uses[{trace.lists[i].layer, expert}];
  }
  std::vector<std::pair<int64_t, ExpertKey>> most;
  for (const auto& [key, count] : uses) most.emplace_back(-count, key);
  std::ranges::sort(most);
  most.resize(std::min(most.size(), slots - trace.header.experts_per_token));
  Held held;
  for (const auto& [_, key] : most) held.insert(key);
  uint64_t hits = 0;
  for (size_t i = half; i < trace.lists.size(); ++i) {
    for (const int32_t expert : trace.lists[i].experts) {
      hits += held.contains({trace.lists[i].layer, expert}) ? 1 : 0;
    }
  }
  return hits;
}

std::vector<AccessTrace> TracesOfManyKinds() {
  std::vector<AccessTrace> traces;
  for (const double skew : {0.0, 0.4, 0.8, 1.2}) {
    for (const double locality : {0.0, 0.3}) {
      for (const int topic : {0, 100}) {
        traces.push_back(MakeRouting({.layers = 6,
                                      .experts = 64,
                                      .experts_per_token = 4,
                                      .passes = 400,
                                      .skew = skew,
                                      .locality = locality,
                                      .topic_passes = topic}));
      }
    }
  }
  // A scan between texts, and texts between scans.
  const RoutingOptions shape{.layers = 6, .experts = 64, .experts_per_token = 4, .passes = 48};
  const AccessTrace scan = MakeScan(shape);
  AccessTrace mixed =
      MakeRouting({.layers = 6, .experts = 64, .experts_per_token = 4, .passes = 100, .skew = 1});
  const std::vector<AccessTrace::List> text = mixed.lists;
  for (int i = 0; i < 4; ++i) {
    mixed.lists.insert(mixed.lists.end(), scan.lists.begin(), scan.lists.end());
    mixed.lists.insert(mixed.lists.end(), text.begin(), text.end());
  }
  traces.push_back(std::move(mixed));
  return traces;
}

TEST(DefaultPolicy, IsNeverFarBehindAStaticChoice) {
  const std::vector<AccessTrace> traces = TracesOfManyKinds();
  for (size_t kind = 0; kind < traces.size(); ++kind) {
    const AccessTrace& trace = traces[kind];
    AccessTrace first = trace;
    first.lists.resize(trace.lists.size() / 2);
    for (const size_t slots : {12u, 23u, 46u, 96u, 192u, 345u}) {
      const CacheDirectory::Options cache{.num_positions = slots};
      const uint64_t hits = SimulateHits(trace, cache) - SimulateHits(first, cache);
      // Where all experts are alike, either has the luck of the draw.
      const auto set = static_cast<double>(StaticHits(trace, slots));
      EXPECT_GE(static_cast<double>(hits), 0.9 * set - 2 * std::sqrt(set))
          << slots << " slots, kind " << kind;
    }
  }
}

// Within a point of whichever policy is best, and far from the worst where they differ.
TEST(DefaultPolicy, IsWithinAPointOfTheBest) {
  for (const double skew : {0.4, 1.0}) {
    for (const double locality : {0.0, 0.4}) {
      const AccessTrace trace = MakeRouting({.layers = 12,
                                             .experts = 64,
                                             .experts_per_token = 4,
                                             .passes = 500,
                                             .skew = skew,
                                             .locality = locality});
      for (const double share : {0.03, 0.06, 0.12, 0.25, 0.5, 0.75, 0.9}) {
        const auto slots = static_cast<size_t>(share * 768);
        const auto percent = [&](CachePolicy policy) {
          return 100 *
                 static_cast<double>(
                     SimulateHits(trace, {.num_positions = slots, .policy = policy})) /
                 static_cast<double>(trace.num_demands());
        };
        double best = 0;
        for (const CachePolicy policy : kCachePolicies) best = std::max(best, percent(policy));
        EXPECT_GE(percent(kDefaultCachePolicy), best - 1)
            << "skew " << skew << " locality " << locality << ", " << slots << " slots";
      }
    }
  }
}

}  // namespace
}  // namespace picchio
