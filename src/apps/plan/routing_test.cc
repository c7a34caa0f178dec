#include "apps/plan/routing.h"

#include <cmath>
#include <map>
#include <set>

#include "apps/synth/expert_popularity.h"
#include "apps/synth/shapes.h"
#include "experts/cache_simulator.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// Four layers of experts as Qwen3-30B has them, 8 of 128.
ModelConfig Config() {
  return ModelConfig::Parse(ShapeConfig("qwen3-30b-a3b", 4, 0).value(), "shape").value();
}

TEST(Routing, FollowsTheLawOfSyntheticModels) {
  // docs/synth.md: of a token's experts, those that the one before it used too.
  const std::map<double, double> overlaps = {{0, 0.06}, {0.5, 0.21}, {1, 0.47}, {2, 0.76}};
  const ModelConfig config = Config();
  constexpr size_t kTokens = 2000;
  for (const auto& [skew, overlap] : overlaps) {
    const AccessTrace trace = MakeRouting(config, {}, skew, kTokens);
    ASSERT_EQ(trace.lists.size(), 4 * kTokens);
    EXPECT_EQ(trace.num_passes(), kTokens);
    EXPECT_EQ(trace.header.num_records, 512u);
    std::vector<double> uses(config.num_experts);
    double shared = 0;
    std::map<int, std::set<int32_t>> last;
    for (const AccessTrace::List& list : trace.lists) {
      const std::set<int32_t> now(list.experts.begin(), list.experts.end());
      ASSERT_EQ(now.size(), 8u);
      for (const int32_t expert : now) {
        uses[static_cast<size_t>(expert)] += 1.0 / (4 * kTokens);
        shared += last[list.layer].contains(expert) ? 1 : 0;
      }
      last[list.layer] = now;
    }
    EXPECT_NEAR(shared / (8 * 4 * kTokens), overlap, 0.02) << skew;
    const std::vector<double> wanted = ExpertShares(128, 8, skew);
    double variation = 0;
    for (size_t i = 0; i < uses.size(); ++i) variation += std::abs(uses[i] - wanted[i]) / 2 / 8;
    EXPECT_LT(variation, 0.06) << skew;
  }
  EXPECT_EQ(MakeRouting(config, {}, 1, 5).lists, MakeRouting(config, {}, 1, 5).lists);
}

AccessTrace Trace(std::vector<AccessTrace::List> lists) {
  AccessTrace trace;
  trace.header = {.num_layers = 2, .num_experts = 8, .experts_per_token = 2, .num_records = 16};
  trace.lists = std::move(lists);
  return trace;
}

TEST(Routing, HitsAreThoseOfTheDecodePasses) {
  // All fits: what the prompt or an earlier token brought in hits.
  const AccessTrace trace = Trace({{0, {0, 1, 2}},
                                   {1, {0, 1}},
                                   // Decode from here on: 3 of 4, 2 of 4, 4 of 4, 4 of 4.
                                   {0, {0, 2}},
                                   {1, {1, 5}},
                                   {0, {1, 7}},
                                   {1, {0, 6}},
                                   {0, {0, 7}},
                                   {1, {1, 6}},
                                   {0, {0, 7}},
                                   {1, {1, 6}}});
  ASSERT_OK_AND_ASSIGN(const HitRates hits, HitsOf(trace, 16));
  EXPECT_DOUBLE_EQ(hits.whole, 13.0 / 16);
  EXPECT_DOUBLE_EQ(hits.warm, 1);
  EXPECT_EQ(TokensOf(trace), 4u);
  EXPECT_EQ(TokensOf(Trace({{0, {0, 1, 2}}})), 0u);
  EXPECT_EQ(TokensOf(Trace({})), 0u);
  // A prompt alone, also one of which a layer asks for few experts; nothing at all, in two ways.
  for (const AccessTrace& none :
       {Trace({{0, {0, 1, 2}}}), Trace({{0, {0, 1, 2}}, {1, {0}}}), Trace({}), Trace({{0, {}}})}) {
    EXPECT_THAT(HitsOf(none, 16), Fails(Code::kInvalidArgument, "no token after it"));
  }
}

TEST(Routing, HitsAreTheSimulators) {
  const AccessTrace trace = MakeRouting(Config(), {}, 1, 60);
  uint64_t previous = 0;
  for (const size_t slots : {8, 40, 150, 512}) {
    const uint64_t hits = SimulateHits(trace, {.num_positions = slots});
    ASSERT_OK_AND_ASSIGN(const HitRates rates, HitsOf(trace, slots));
    EXPECT_DOUBLE_EQ(rates.whole, static_cast<double>(hits) / (60 * 32)) << slots;
    EXPECT_GE(hits, previous);
    EXPECT_GE(rates.warm, rates.whole - 0.02);
    previous = hits;
  }
}

}  // namespace
}  // namespace picchio
