#include "apps/plan/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "apps/synth/expert_popularity.h"
#include "apps/synth/random_stream.h"
#include "experts/cache_simulator.h"

namespace picchio {
namespace {

// The parts of a layer that change from token to token.
struct LayerState {
  std::vector<float> noise;  // [num_experts], by popularity rank.
  std::vector<float> fresh;
};

uint64_t DemandsOf(std::span<const AccessTrace::List> lists) {
  uint64_t demands = 0;
  for (const AccessTrace::List& list : lists) demands += list.experts.size();
  return demands;
}

// Where each pass begins in the lists, and where the last one ends.
std::vector<size_t> PassBegins(const AccessTrace& trace) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < trace.lists.size(); ++i) {
    if (i == 0 || trace.lists[i].layer <= trace.lists[i - 1].layer) begins.push_back(i);
  }
  begins.push_back(trace.lists.size());
  return begins;
}

// The first pass that is not a prompt's.
size_t FirstToken(const AccessTrace& trace, std::span<const size_t> begins) {
  const auto is_token = [&](size_t pass) {
    for (size_t i = begins[pass]; i < begins[pass + 1]; ++i) {
      if (trace.lists[i].experts.size() > trace.header.experts_per_token) return false;
    }
    return true;
  };
  size_t pass = 0;
  while (pass + 1 < begins.size() && !is_token(pass)) ++pass;
  return pass;
}

}  // namespace

AccessTrace MakeRouting(const ModelConfig& config, const ExpertRecordLayout& layout, double skew,
                        size_t tokens) {
  AccessTrace trace;
  trace.header = {.num_layers = config.num_hidden_layers,
                  .num_experts = config.num_experts,
                  .experts_per_token = config.experts_per_token,
                  .num_records = uint64_t{config.num_moe_layers()} * config.num_experts,
                  .record_bytes = layout.record_bytes};
  const uint32_t chosen = config.experts_per_token;
  std::vector<float> biases;
  for (const double share : ExpertShares(config.num_experts, chosen, skew)) {
    biases.push_back(static_cast<float>(ShareBias(share)));
  }
  const auto rho = static_cast<float>(TokenCorrelation(skew));
  const float innovation = std::sqrt(1 - rho * rho);
  RandomStream random(1, 1);
  std::vector<LayerState> layers(config.num_hidden_layers);
  std::vector<int32_t> ranks(config.num_experts);
  for (size_t token = 0; token < tokens; ++token) {
    for (uint32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      if (!config.layers[layer].moe) continue;
      LayerState& state = layers[layer];
      state.fresh.resize(config.num_experts);
      random.FillNormal(state.fresh, 1);
      if (token == 0) {
        state.noise = state.fresh;
      } else {
        for (size_t i = 0; i < state.noise.size(); ++i) {
          state.noise[i] = rho * state.noise[i] + innovation * state.fresh[i];
        }
      }
      std::iota(ranks.begin(), ranks.end(), 0);
      std::ranges::nth_element(ranks, ranks.begin() + (chosen - 1), [&](int32_t a, int32_t b) {
        const auto x = static_cast<size_t>(a);
        const auto y = static_cast<size_t>(b);
        return biases[x] + state.noise[x] > biases[y] + state.noise[y];
      });
      std::vector<int32_t> experts(ranks.begin(), ranks.begin() + chosen);
      std::ranges::sort(experts);
      trace.lists.push_back({static_cast<int>(layer), std::move(experts)});
    }
  }
  return trace;
}

size_t TokensOf(const AccessTrace& trace) {
  const std::vector<size_t> begins = PassBegins(trace);
  return begins.size() - 1 - FirstToken(trace, begins);
}

Result<HitRates> HitsOf(const AccessTrace& trace, size_t num_slots, size_t slots_per_layer) {
  const std::vector<size_t> begins = PassBegins(trace);
  const size_t num_passes = begins.size() - 1;
  const size_t prompt = FirstToken(trace, begins);
  if (DemandsOf(std::span(trace.lists).subspan(begins[prompt])) == 0) {
    return Error(Code::kInvalidArgument,
                 "the trace holds a prompt and no token after it: nothing to plan");
  }
  const size_t middle = prompt + (num_passes - prompt) / 2;
  const CacheDirectory::Options options{.num_positions = num_slots,
                                        .positions_per_layer = slots_per_layer};
  // Decisions depend on what came before alone, so hits of a part are a difference.
  const auto hits_until = [&](size_t pass) {
    AccessTrace part;
    part.header = trace.header;
    part.lists.assign(trace.lists.begin(),
                      trace.lists.begin() + static_cast<ptrdiff_t>(begins[pass]));
    return SimulateHits(part, options);
  };
  const uint64_t all = hits_until(num_passes);
  const auto share = [&](size_t from) {
    const auto demands = DemandsOf(std::span(trace.lists).subspan(begins[from]));
    return demands == 0
               ? 0.0
               : static_cast<double>(all - hits_until(from)) / static_cast<double>(demands);
  };
  return HitRates{.whole = share(prompt), .warm = share(middle)};
}

}  // namespace picchio
