#include "engine/token_logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "engine/token_scores.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TEST(TokenLogprobs, ByHand) {
  // Probabilities 1/10, 2/10, 5/10, 2/10.
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f),
                                     std::log(2.0f)};
  const TokenLogprobs of_one = LogprobsOf(logits, 0, 3);
  EXPECT_EQ(of_one.drawn.id, 0);
  EXPECT_EQ(of_one.drawn.logit, 0.0f);
  EXPECT_NEAR(of_one.drawn.logprob, std::log(0.1), 1e-7);
  ASSERT_EQ(of_one.top.size(), 3u);
  EXPECT_EQ(of_one.top[0].id, 2);
  EXPECT_NEAR(of_one.top[0].logprob, std::log(0.5), 1e-7);
  EXPECT_EQ(of_one.top[1].id, 1) << "of equals, the lower id";
  EXPECT_EQ(of_one.top[2].id, 3);
  EXPECT_TRUE(LogprobsOf(logits, 3, 0).top.empty());
  EXPECT_EQ(LogprobsOf(logits, 3, 99).top.size(), 4u);
}

TEST(TokenLogprobs, AgainstAFullSort) {
  uint64_t state = 11;
  std::vector<float> logits(3000);
  for (float& x : logits) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x = static_cast<float>(state >> 54) / 16;  // Many of them alike.
  }
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  const TokenLogprobs result = LogprobsOf(logits, 17, 20);
  EXPECT_NEAR(result.drawn.logprob, -NegativeLogLikelihood(logits, 17), 1e-12);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(result.top[i].id, ids[i]);
    EXPECT_NEAR(result.top[i].logprob, -NegativeLogLikelihood(logits, ids[i]), 1e-12);
  }
}

}  // namespace
}  // namespace picchio
