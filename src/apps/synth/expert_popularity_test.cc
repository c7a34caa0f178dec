#include "apps/synth/expert_popularity.h"

#include <cmath>
#include <numeric>

#include "support/test_support.h"

namespace picchio {
namespace {

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(ExpertPopularity, WithoutSkewAllAreAlike) {
  const std::vector<double> shares = ExpertShares(128, 8, 0);
  ASSERT_EQ(shares.size(), 128U);
  for (const double share : shares) EXPECT_NEAR(share, 8.0 / 128, 1e-12);
}

TEST(ExpertPopularity, FollowsZipfBelowTheLimit) {
  for (const double skew : {0.3, 0.5, 1.0, 1.5, 3.0}) {
    SCOPED_TRACE(skew);
    const std::vector<double> shares = ExpertShares(128, 8, skew);
    EXPECT_NEAR(Sum(shares), 8, 1e-9);
    size_t limited = 0;
    while (shares[limited] == 0.95) ++limited;
    EXPECT_EQ(limited, skew < 1 ? 0U : skew == 1 ? 1U : limited);
    ASSERT_LT(limited, 8U);
    // From there on every ratio is that of the ranks.
    for (size_t rank = limited + 1; rank < shares.size(); ++rank) {
      const double ratio =
          std::pow(static_cast<double>(rank + 1) / static_cast<double>(limited + 1), -skew);
      EXPECT_NEAR(shares[rank] / shares[limited], ratio, 1e-9) << rank;
    }
    EXPECT_LE(shares[limited], 0.95);
  }
}

TEST(ExpertPopularity, AllExpertsForEveryToken) {
  for (const double share : ExpertShares(4, 4, 1)) EXPECT_NEAR(share, 1, 1e-3);
}

// Quantiles as tables of the normal distribution have them.
TEST(ExpertPopularity, BiasIsTheNormalQuantile) {
  EXPECT_NEAR(ShareBias(0.5), 0, 1e-9);
  EXPECT_NEAR(ShareBias(0.975), 1.959963985, 1e-6);
  EXPECT_NEAR(ShareBias(0.01), -2.326347874, 1e-6);
  EXPECT_NEAR(ShareBias(0.95), 1.644853627, 1e-6);
}

TEST(ExpertPopularity, TokensAreRelatedOnlyWithSkew) {
  EXPECT_EQ(TokenCorrelation(0), 0);
  EXPECT_EQ(TokenCorrelation(1), 0.5);
}

}  // namespace
}  // namespace picchio
