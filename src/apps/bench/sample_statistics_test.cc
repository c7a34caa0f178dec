#include "apps/bench/sample_statistics.h"

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(SampleStatistics, SpreadOfOddEvenAndNone) {
  const Spread odd = SpreadOf({5, 1, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.least, 1);
  EXPECT_EQ(odd.greatest, 5);
  EXPECT_EQ(SpreadOf({4, 1, 3, 2}).median, 2.5);
  EXPECT_EQ(SpreadOf({}).greatest, 0);
}

// The nearest rank: the least value that a share of q of them does not exceed.
TEST(SampleStatistics, QuantilesAreSamples) {
  const std::vector<double> ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(Quantile(ten, 0), 1);
  EXPECT_EQ(Quantile(ten, 0.5), 5);
  EXPECT_EQ(Quantile(ten, 0.51), 6);
  EXPECT_EQ(Quantile(ten, 0.9), 9);
  EXPECT_EQ(Quantile(ten, 0.99), 10);
  EXPECT_EQ(Quantile(ten, 1), 10);
  EXPECT_EQ(Quantile({}, 0.5), 0);
}

}  // namespace
}  // namespace picchio
