#include "kernels/exp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "kernels/float_bits.h"

namespace picchio {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every 1,021st F32 (a prime: all exponents, and all low bits in turn) takes half a second; all of
// them, with PICCHIO_EXHAUSTIVE set, some minutes.
uint64_t Stride() { return std::getenv("PICCHIO_EXHAUSTIVE") != nullptr ? 1 : 1021; }

template <typename Check>
void ForFloats(Check check) {
  const uint64_t stride = Stride();
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += stride) {
    const float x = FloatOf(static_cast<uint32_t>(bits));
    if (!std::isnan(x)) check(x);
  }
}

// The distance in units of the last place that a correctly rounded result would have.
double ErrorInUlp(double expected, float actual) {
  const auto rounded = static_cast<float>(expected);
  if (std::isinf(rounded) || std::isinf(actual)) return rounded == actual ? 0 : 1e9;
  int exponent = 0;
  std::frexp(expected, &exponent);
  return std::fabs(expected - actual) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

TEST(ExpTest, IsWithinItsBoundOverAllFloats) {
  double worst = 0;
  ForFloats([&](float x) { worst = std::max(worst, ErrorInUlp(std::exp(double{x}), Exp(x))); });
  EXPECT_LE(worst, 1.0);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST(ExpTest, IsWithinItsBoundNearZero) {
  // Where attention's weights mostly are: every float of [-1, -0.5] and its like.
  double worst = 0;
  for (uint32_t bits = BitsOf(-0.25F); bits < BitsOf(-4.0F); bits += 17) {
    const float x = FloatOf(bits);
    worst = std::max(worst, ErrorInUlp(std::exp(double{x}), Exp(x)));
  }
  EXPECT_LE(worst, 1.0);
}

TEST(ExpTest, AtTheEnds) {
  EXPECT_EQ(Exp(0.0F), 1.0F);
  EXPECT_EQ(Exp(-0.0F), 1.0F);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp(-kInfinity), 0.0F);
  EXPECT_FALSE(std::signbit(Exp(-kInfinity)));
  EXPECT_EQ(Exp(88.7228394F), kInfinity);
  EXPECT_TRUE(std::isfinite(Exp(88.7228317F)));
  EXPECT_EQ(Exp(-103.9F), 0x1p-149F);
  EXPECT_EQ(Exp(-104.0F), 0.0F);
  EXPECT_TRUE(std::isnan(Exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(ExpTest, SigmoidIsWithinItsBoundOverAllFloats) {
  double worst = 0;
  ForFloats([&](float x) {
    const double expected = 1 / (1 + std::exp(-double{x}));
    worst = std::max(worst, ErrorInUlp(expected, Sigmoid(x)));
  });
  EXPECT_LE(worst, 3.0);
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_EQ(Sigmoid(0.0F), 0.5F);
  EXPECT_EQ(Sigmoid(kInfinity), 1.0F);
  EXPECT_EQ(Sigmoid(-kInfinity), 0.0F);
  EXPECT_TRUE(std::isnan(Sigmoid(std::numeric_limits<float>::quiet_NaN())));
}

TEST(ExpTest, SiluIsWithinItsBound) {
  for (const float x : {-87.0F, -20.0F, -3.0F, -0.0F, 0.0F, 1e-30F, 2.5F, 100.0F}) {
    const double expected = double{x} / (1 + std::exp(-double{x}));
    EXPECT_LE(ErrorInUlp(expected, Silu(x)), 4.0) << x;
  }
}

}  // namespace
}  // namespace picchio
