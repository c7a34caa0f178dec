#include "apps/synth/random_stream.h"

#include <cmath>
#include <set>
#include <vector>

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(RandomStream, NormalsHaveTheirMomentsAndTails) {
  constexpr size_t kCount = 400'001;  // Odd: the last one is half of a pair.
  std::vector<float> values(kCount);
  RandomStream(1, 2).FillNormal(values, 3);
  double mean = 0;
  double square = 0;
  size_t beyond_two = 0;
  for (const float value : values) {
    mean += value / static_cast<double>(kCount);
    square += value * value / static_cast<double>(kCount);
    beyond_two += std::abs(value) > 6 ? 1U : 0U;
    ASSERT_LE(std::abs(value), 3 * 3.5F);
  }
  EXPECT_NEAR(mean, 0, 0.03);
  EXPECT_NEAR(std::sqrt(square), 3, 0.02);
  // 4.6 % of a normal distribution; sums of four are a little narrower.
  EXPECT_NEAR(static_cast<double>(beyond_two) / kCount, 0.045, 0.005);
}

TEST(RandomStream, EveryPlaceHasItsOwn) {
  std::set<uint64_t> first;
  for (const RandomStream stream :
       {RandomStream(1, 2, 3, 4), RandomStream(2, 2, 3, 4), RandomStream(1, 1, 3, 4),
        RandomStream(1, 2, 4, 3), RandomStream(1, 2, 3, 5), RandomStream(1, 2, 3, 4)}) {
    RandomStream copy = stream;
    first.insert(copy.Next());
  }
  EXPECT_EQ(first.size(), 5U);
}

}  // namespace
}  // namespace picchio
