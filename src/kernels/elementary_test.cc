#include "kernels/elementary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace picchio {
namespace {

// The reference is the system's extended precision (64-bit or 113-bit significands).
using Long = long double;

TEST(ElementaryTest, LogIsWithinItsBound) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> exponent(-1021, 1023);
  std::uniform_real_distribution<double> near_one(0.5, 2);
  Long worst = 0;
  for (int i = 0; i < 400000; ++i) {
    const double x = i % 2 == 0 ? std::exp2(exponent(random)) : near_one(random);
    const Long expected = std::log(Long{x});
    worst = std::max(worst, std::fabs(LogF64(x) - expected) / std::max(std::fabs(expected), 0.5L));
  }
  EXPECT_LE(worst, 0x1p-51L);
  EXPECT_EQ(LogF64(1), 0);
}

TEST(ElementaryTest, SineAndCosineAreWithinTheirBound) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> wide(-0x1p21, 0x1p21);
  std::uniform_real_distribution<double> narrow(-4, 4);
  Long worst = 0;
  for (int i = 0; i < 600000; ++i) {
    double x = i % 3 == 0 ? wide(random) : narrow(random);
    // Beside the multiples of pi/2, where the reduction cancels.
    if (i % 3 == 2) x = std::round(wide(random) * 0.6) * 1.5707963267948966 + x * 1e-9;
    const SinCos got = SinCosF64(x);
    worst = std::max(worst, std::fabs(got.sin - std::sin(Long{x})));
    worst = std::max(worst, std::fabs(got.cos - std::cos(Long{x})));
  }
  EXPECT_LE(worst, 0x1p-52L);
  EXPECT_EQ(SinCosF64(0).sin, 0);
  EXPECT_EQ(SinCosF64(0).cos, 1);
}

}  // namespace
}  // namespace picchio
