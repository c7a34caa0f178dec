#include "kernels/router.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "format/npy.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// The same in F64, by sorting everything.
struct Expected {
  std::vector<uint32_t> ids;
  std::vector<double> weights;
};

Expected Reference(const std::vector<float>& logits, RouterWeights kind, size_t k) {
  std::vector<uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
  Expected expected;
  double sum = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const double e = std::exp(double{logits[order[rank]]} - double{logits[order[0]]});
    if (rank < k) {
      expected.ids.push_back(order[rank]);
      expected.weights.push_back(e);
    }
    if (rank < k || kind == RouterWeights::kSoftmaxOverAll) sum += e;
  }
  for (double& weight : expected.weights) weight /= sum;
  return expected;
}

TEST(RouterTest, EqualsTheReferenceOnRandomLogitsWithTies) {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    const size_t n = 1 + random() % 130;
    const size_t k = 1 + random() % std::min<size_t>(n, 9);
    std::vector<float> logits(n);
    for (float& logit : logits)
      logit = static_cast<float>(static_cast<int>(random() % 23) - 11) / 2;
    for (const auto kind : {RouterWeights::kSoftmaxOverChosen, RouterWeights::kSoftmaxOverAll}) {
      std::vector<uint32_t> ids(k);
      std::vector<float> weights(k);
      RouteTopK(logits, kind, ids, weights);
      const Expected expected = Reference(logits, kind, k);
      EXPECT_EQ(ids, expected.ids);
      for (size_t r = 0; r < k; ++r) {
        // exp within 1 unit, n additions, one division.
        EXPECT_NEAR(weights[r] / expected.weights[r], 1, static_cast<double>(n + 3) * 0x1p-23);
      }
    }
  }
}

// Layer 0 of a fixture: its router logits give its ids and weights.
void ExpectFixture(std::string_view fixture, size_t layer, size_t moe_layer, RouterWeights kind) {
  const Path golden = TestData("fixtures") / Path(fixture) / "golden";
  ASSERT_OK_AND_ASSIGN(
      const auto logits_array,
      NpyArray::Load(golden / ("p24.orig.layer" + std::to_string(layer) + ".router_logits.npy")));
  ASSERT_OK_AND_ASSIGN(const auto ids_array, NpyArray::Load(golden / "p24.orig.router_ids.npy"));
  ASSERT_OK_AND_ASSIGN(const auto weights_array,
                       NpyArray::Load(golden / "p24.orig.router_weights.npy"));
  ASSERT_OK_AND_ASSIGN(const auto logits, logits_array.Values<float>());
  ASSERT_OK_AND_ASSIGN(const auto all_ids, ids_array.Values<int32_t>());
  ASSERT_OK_AND_ASSIGN(const auto all_weights, weights_array.Values<float>());
  const size_t tokens = logits_array.shape()[0];
  const size_t experts = logits_array.shape()[1];
  const size_t k = ids_array.shape()[2];
  std::vector<uint32_t> ids(k);
  std::vector<float> weights(k);
  for (size_t t = 0; t < tokens; ++t) {
    RouteTopK(logits.subspan(t * experts, experts), kind, ids, weights);
    for (size_t r = 0; r < k; ++r) {
      const size_t at = (moe_layer * tokens + t) * k + r;
      EXPECT_EQ(ids[r], static_cast<uint32_t>(all_ids[at]));
      EXPECT_NEAR(weights[r], all_weights[at], 1e-6);
    }
  }
}

TEST(RouterTest, EqualsTheFixtures) {
  ExpectFixture("qwen3_moe_tiny", 0, 0, RouterWeights::kSoftmaxOverChosen);
  ExpectFixture("qwen3_moe_tiny", 1, 1, RouterWeights::kSoftmaxOverChosen);
  ExpectFixture("qwen3_moe_tiny_dense", 1, 0, RouterWeights::kSoftmaxOverAll);
  ExpectFixture("gpt_oss_tiny", 0, 0, RouterWeights::kSoftmaxOverChosen);
}

}  // namespace
}  // namespace picchio
