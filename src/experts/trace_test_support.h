// Made-up traces for tests: what routers are like, and what caches fear.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "experts/access_trace.h"

namespace picchio {

struct RoutingOptions {
  int layers = 4;
  int experts = 32;
  int experts_per_token = 4;
  int passes = 200;
  double skew = 0;       // The expert of rank r is drawn with weight r^-skew.
  double locality = 0;   // The chance that an expert of the last pass is kept.
  int topic_passes = 0;  // After so many passes a quarter of the ranks is exchanged; 0: never.
  uint32_t seed = 1;
};

inline TraceHeader HeaderOf(const RoutingOptions& options) {
  return {.num_layers = static_cast<uint64_t>(options.layers),
          .num_experts = static_cast<uint64_t>(options.experts),
          .experts_per_token = static_cast<uint64_t>(options.experts_per_token),
          .num_records = static_cast<uint64_t>(options.layers) * options.experts,
          .record_bytes = 4096};
}

// Tokens one after the other, each layer with a popularity of its own.
inline AccessTrace MakeRouting(const RoutingOptions& options) {
  std::mt19937 random(options.seed);
  const auto chance = [&random] { return static_cast<double>(random()) / 4294967296.0; };
  std::vector<double> weight_up_to(options.experts);
  double sum = 0;
  for (int rank = 0; rank < options.experts; ++rank) {
    weight_up_to[rank] = sum += std::pow(rank + 1, -options.skew);
  }
  std::vector<std::vector<int32_t>> by_rank(options.layers, std::vector<int32_t>(options.experts));
  for (auto& ranks : by_rank) {
    std::iota(ranks.begin(), ranks.end(), 0);
    std::shuffle(ranks.begin(), ranks.end(), random);
  }
  std::vector<std::vector<int32_t>> last(options.layers);
  AccessTrace trace{.header = HeaderOf(options), .lists = {}};
  for (int pass = 0; pass < options.passes; ++pass) {
    if (options.topic_passes > 0 && pass % options.topic_passes == options.topic_passes - 1) {
      for (auto& ranks : by_rank) {
        for (int i = 0; i < options.experts / 4; ++i) {
          std::swap(ranks[random() % ranks.size()], ranks[random() % ranks.size()]);
        }
      }
    }
    for (int layer = 0; layer < options.layers; ++layer) {
      std::vector<int32_t> chosen;
      for (const int32_t expert : last[layer]) {
        if (chance() < options.locality) chosen.push_back(expert);
      }
      while (chosen.size() < static_cast<size_t>(options.experts_per_token)) {
        const auto at = std::ranges::lower_bound(weight_up_to, chance() * sum);
        const int32_t expert =
            by_rank[layer][std::min<size_t>(at - weight_up_to.begin(), options.experts - 1)];
        if (std::ranges::find(chosen, expert) == chosen.end()) chosen.push_back(expert);
      }
      std::ranges::sort(chosen);
      last[layer] = chosen;
      trace.lists.push_back({.layer = layer, .experts = chosen});
    }
  }
  return trace;
}

// All records in turn, a few of a layer at a time, again and again: a pass takes one list of each
// layer, and after experts / experts_per_token passes all have been used.
inline AccessTrace MakeScan(const RoutingOptions& options) {
  AccessTrace trace{.header = HeaderOf(options), .lists = {}};
  for (int pass = 0; pass < options.passes; ++pass) {
    for (int layer = 0; layer < options.layers; ++layer) {
      AccessTrace::List& list = trace.lists.emplace_back();
      list.layer = layer;
      for (int i = 0; i < options.experts_per_token; ++i) {
        list.experts.push_back((pass * options.experts_per_token + i) % options.experts);
      }
    }
  }
  return trace;
}

}  // namespace picchio
