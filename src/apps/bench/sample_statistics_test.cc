#include "apps/bench/sample_statistics.h"

#include <tuple>

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

// The ranks of published tables (95 %): 1 and 6 of 6, 2 and 9 of 10, 6 and 15 of 20.
TEST(SampleStatistics, IntervalOfTheMedianByTheTables) {
  const auto first = [](int count) {
    std::vector<double> values;
    for (int i = count; i >= 1; --i) values.push_back(i);
    return values;
  };
  EXPECT_FALSE(MedianInterval({}, 0.95));
  EXPECT_FALSE(MedianInterval(first(5), 0.95));
  for (const auto& [count, low, high] : {std::tuple(6, 1, 6),
                                         {8, 1, 8},
                                         {9, 2, 8},
                                         {10, 2, 9},
                                         {15, 4, 12},
                                         {20, 6, 15},
                                         {25, 8, 18}}) {
    const auto interval = MedianInterval(first(count), 0.95);
    ASSERT_TRUE(interval) << count;
    EXPECT_EQ(interval->low, low) << count;
    EXPECT_EQ(interval->high, high) << count;
  }
  EXPECT_TRUE(MedianInterval(first(1000), 0.95));
}

}  // namespace
}  // namespace picchio
