#include "engine/token_scores.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(TokenScores, LikelihoodByHand) {
  // Probabilities 1/10, 2/10, 7/10.
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(7.0f)};
  EXPECT_NEAR(NegativeLogLikelihood(logits, 0), std::log(10.0), 1e-6);
  EXPECT_NEAR(NegativeLogLikelihood(logits, 2), std::log(10.0 / 7), 1e-6);
  EXPECT_EQ(NegativeLogLikelihood(std::vector<float>{5}, 0), 0.0);
  EXPECT_NEAR(NegativeLogLikelihood(std::vector<float>(1024, -3.0f), 77), std::log(1024.0), 1e-12);
  // Far beyond what exp of the logits themselves could hold.
  EXPECT_DOUBLE_EQ(NegativeLogLikelihood(std::vector<float>{3e38f, -3e38f}, 1),
                   2.0 * static_cast<double>(3e38f));
}

TEST(TokenScores, LikelihoodAgainstLongDouble) {
  uint64_t state = 3;
  std::vector<float> logits(50'000);
  for (float& x : logits) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x = static_cast<float>(static_cast<double>(state >> 11) * 0x1p-53 * 30 - 15);
  }
  long double sum = 0;
  for (float x : logits) sum += std::exp(static_cast<long double>(x));
  for (int32_t target : {0, 1, 49'999}) {
    const long double exact = std::log(sum) - logits[static_cast<size_t>(target)];
    EXPECT_NEAR(NegativeLogLikelihood(logits, target), static_cast<double>(exact), 1e-12);
  }
}

TEST(TokenScores, WindowsByHand) {
  using Windows = std::vector<ScoredWindow>;
  EXPECT_EQ(WindowsOver(0, 8), Windows{});
  EXPECT_EQ(WindowsOver(1, 8), Windows{});
  EXPECT_EQ(WindowsOver(8, 8), (Windows{{0, 8, 1}}));
  EXPECT_EQ(WindowsOver(9, 8), (Windows{{0, 8, 1}, {4, 9, 8}}));
  EXPECT_EQ(WindowsOver(17, 8), (Windows{{0, 8, 1}, {4, 12, 8}, {8, 16, 12}, {12, 17, 16}}));
}

TEST(TokenScores, WindowsScoreEveryIdOnceWithEnoughContext) {
  for (size_t context = 2; context < 12; ++context) {
    for (size_t n = 0; n < 40; ++n) {
      size_t next = 1;
      for (const ScoredWindow& w : WindowsOver(n, context)) {
        EXPECT_EQ(w.first_scored, next);
        EXPECT_LT(w.first_scored, w.end);
        EXPECT_LE(w.end - w.begin, context);
        EXPECT_GE(w.first_scored - w.begin, w.begin == 0 ? 1 : context / 2);
        next = w.end;
      }
      EXPECT_EQ(next, std::max<size_t>(n, 1));
    }
  }
}

}  // namespace
}  // namespace picchio
