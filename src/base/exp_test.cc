#include "base/exp.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "support/test_support.h"

namespace picchio {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The distance to the C library's exponential in its widest type (64 bits of precision or more
// where `long double` is wider than F64), in units of the result's last place.
double ErrorInUlp(double x) {
  const long double exact = std::exp(static_cast<long double>(x));
  const double result = ExpF64(x);
  int exponent;
  std::frexp(static_cast<double>(exact), &exponent);
  const long double ulp = std::ldexp(1.0L, std::max(exponent - 53, -1074));
  return static_cast<double>(std::abs(static_cast<long double>(result) - exact) / ulp);
}

TEST(ExpF64, WithinOneUlpOverItsWholeRange) {
  double worst = 0;
  uint64_t state = 1;
  for (int i = 0; i < 400'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double unit = static_cast<double>(state >> 11) * 0x1p-53;
    worst = std::max(worst, ErrorInUlp(-745.0 + unit * (745.0 + 709.0)));
    worst = std::max(worst, ErrorInUlp(-20.0 * unit));  // Where a sampler's weights lie.
    worst = std::max(worst, ErrorInUlp(std::ldexp(unit - 0.5, -static_cast<int>(state % 40))));
  }
  EXPECT_LT(worst, 1.0);
  EXPECT_GT(worst, 0.5);  // Else the measure itself is broken: rounding alone costs a half.
}

TEST(ExpF64, WithinOneUlpBesideTheSeamsOfTheReduction) {
  double worst = 0;
  for (int n = -1074; n < 1024; ++n) {
    const double seam = (n + 0.5) * 0x1.62e42fefa39efp-1;
    if (seam < -745 || seam > 709.7) continue;
    for (double x : {seam, std::nextafter(seam, -kInfinity), std::nextafter(seam, kInfinity)}) {
      worst = std::max(worst, ErrorInUlp(x));
    }
  }
  EXPECT_LT(worst, 1.0);
}

TEST(ExpF64, Ends) {
  EXPECT_EQ(ExpF64(0.0), 1.0);
  EXPECT_EQ(ExpF64(-0.0), 1.0);
  EXPECT_EQ(ExpF64(kInfinity), kInfinity);
  EXPECT_EQ(ExpF64(-kInfinity), 0.0);
  EXPECT_EQ(ExpF64(710.0), kInfinity);
  EXPECT_LT(ExpF64(709.78), kInfinity);
  EXPECT_EQ(ExpF64(-745.13), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(ExpF64(-745.14), 0.0);
  EXPECT_EQ(ExpF64(-1e300), 0.0);
  EXPECT_TRUE(std::isnan(ExpF64(std::numeric_limits<double>::quiet_NaN())));
}

// Digits of e (OEIS A001113) and 1/e (A068985); the tolerance is one unit in the last place.
TEST(ExpF64, KnownConstants) {
  EXPECT_NEAR(ExpF64(1.0), 2.71828182845904523536, 0x1p-51);
  EXPECT_NEAR(ExpF64(-1.0), 0.36787944117144232159, 0x1p-54);
}

}  // namespace
}  // namespace picchio
