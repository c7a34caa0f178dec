#include "kernels/exp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "kernels/float_bits.h"

namespace picchio {
namespace {

// As exp.h states them.
constexpr double kExpBound = 1.02;
constexpr double kSigmoidBound = 2.42;
constexpr double kSiluBound = 3.2;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every 2,039th F32 (a prime: all exponents, and all low bits in turn) takes half a second; all of
// them, with PICCHIO_EXHAUSTIVE set, some minutes.
uint64_t Stride() { return std::getenv("PICCHIO_EXHAUSTIVE") != nullptr ? 1 : 2039; }

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
  EXPECT_LE(worst, kExpBound);
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
  EXPECT_LE(worst, kSigmoidBound);
  EXPECT_EQ(Sigmoid(0.0F), 0.5F);
  EXPECT_EQ(Sigmoid(kInfinity), 1.0F);
  EXPECT_EQ(Sigmoid(-kInfinity), 0.0F);
  EXPECT_TRUE(std::isnan(Sigmoid(std::numeric_limits<float>::quiet_NaN())));
}

TEST(ExpTest, SiluIsWithinItsBoundOverAllFloats) {
  double worst = 0;
  ForFloats([&](float x) {
    if (x < -87) return;
    const double expected = x / (1 + std::exp(-double{x}));
    worst = std::max(worst, ErrorInUlp(expected, Silu(x)));
  });
  EXPECT_LE(worst, kSiluBound);
}

// Where the full run found the largest errors.
TEST(ExpTest, TheWorstCasesReachTheirBounds) {
  const float exp_at = 0x1.da72c4p+5F;
  EXPECT_NEAR(ErrorInUlp(std::exp(double{exp_at}), Exp(exp_at)), kExpBound, 0.01);
  const float sigmoid_at = -0x1.0a111ap+2F;
  EXPECT_NEAR(ErrorInUlp(1 / (1 + std::exp(-double{sigmoid_at})), Sigmoid(sigmoid_at)),
              kSigmoidBound, 0.02);
  const float silu_at = -0x1.e7cfb2p+2F;
  EXPECT_NEAR(ErrorInUlp(silu_at / (1 + std::exp(-double{silu_at})), Silu(silu_at)), kSiluBound,
              0.01);
}

}  // namespace
}  // namespace picchio
