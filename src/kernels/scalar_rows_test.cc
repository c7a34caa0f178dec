#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "kernels/equality_test_support.h"
#include "kernels/rope.h"
#include "kernels/scalar.h"

namespace picchio {
namespace {

constexpr double kHalfUlp = 0x1p-24;

TEST(ScalarRowsTest, RmsNormIsWithinItsRoundings) {
  RandomInputs random(31);
  for (const size_t n : {1, 5, 16, 128, 2048}) {
    const auto x = random.Gaussian(3 * n);
    const auto w = random.Gaussian(n);
    std::vector<float> y(3 * n);
    scalar::RmsNorm({x.data(), 3, n}, n, w.data(), 1e-6F, {y.data(), n});
    for (size_t t = 0; t < 3; ++t) {
      double squares = 0;
      for (size_t i = 0; i < n; ++i) squares += double{x[t * n + i]} * x[t * n + i];
      const double r = 1 / std::sqrt(squares / static_cast<double>(n) + double{1e-6F});
      for (size_t i = 0; i < n; ++i) {
        // Half of the sum's relative error passes the root.
        const auto roundings = static_cast<double>(n / 16 + 5) / 2 + 6;
        const double expected = x[t * n + i] * r * w[i];
        EXPECT_NEAR(y[t * n + i], expected, roundings * kHalfUlp * std::fabs(expected));
      }
    }
  }
}

TEST(ScalarRowsTest, RopeTurnsPairsOfHalves) {
  RandomInputs random(32);
  constexpr size_t kDim = 32;
  const RopeTable table(1e4, kDim);
  std::vector<float> cos(kDim / 2);
  std::vector<float> sin(kDim / 2);
  table.CosSin(37, cos.data(), sin.data());
  const auto x = random.Gaussian(2 * kDim);
  std::vector<float> y = x;
  scalar::Rope(y.data(), 2, kDim, cos.data(), sin.data());
  for (size_t h = 0; h < 2; ++h) {
    for (size_t i = 0; i < kDim / 2; ++i) {
      const std::complex<double> pair(x[h * kDim + i], x[h * kDim + i + kDim / 2]);
      const double angle = 37 * std::pow(1e4, -static_cast<double>(2 * i) / kDim);
      const std::complex<double> turned = pair * std::polar(1.0, angle);
      const double tolerance = 4 * kHalfUlp * std::abs(pair);
      EXPECT_NEAR(y[h * kDim + i], turned.real(), tolerance);
      EXPECT_NEAR(y[h * kDim + i + kDim / 2], turned.imag(), tolerance);
    }
  }
}

double SigmoidF64(double x) { return 1 / (1 + std::exp(-x)); }

TEST(ScalarRowsTest, SwigluIsWithinItsBound) {
  RandomInputs random(33);
  constexpr size_t kN = 300;
  const auto gate_up = random.Gaussian(2 * kN);
  std::vector<float> y(kN);
  scalar::Swiglu(gate_up.data(), kN, y.data());
  for (size_t i = 0; i < kN; ++i) {
    const double expected = gate_up[i] * SigmoidF64(gate_up[i]) * gate_up[kN + i];
    EXPECT_NEAR(y[i], expected, 10 * kHalfUlp * std::fabs(expected));
  }
}

TEST(ScalarRowsTest, ClampedSwigluIsWithinItsBound) {
  // Gates and ups on both sides of the limit, interleaved.
  const std::vector<float> gate_up = {0.5F, 0.25F, 9, 9, -9, -9, 7, 7, -30, 2, 0, 0};
  std::vector<float> y(gate_up.size() / 2);
  scalar::SwigluClamped(gate_up.data(), y.size(), 7, y.data());
  for (size_t i = 0; i < y.size(); ++i) {
    const double gate = std::min(gate_up[2 * i], 7.0F);
    const double up = std::clamp(gate_up[2 * i + 1], -7.0F, 7.0F);
    const double expected = gate * SigmoidF64(1.702 * gate) * (up + 1);
    // The error of 1.702 * gate, absolute, is a relative one of the exponential.
    EXPECT_NEAR(y[i], expected, (16 + 3 * std::fabs(gate)) * kHalfUlp * std::fabs(expected)) << i;
  }
}

TEST(ScalarRowsTest, PlainVectors) {
  const std::vector<float> x = {1, -2, 0.5F};
  std::vector<float> y = {10, 20, 30};
  scalar::Add(x.data(), 3, y.data());
  EXPECT_EQ(y, (std::vector<float>{11, 18, 30.5F}));
  scalar::AddScaled(2, x.data(), 3, y.data());
  EXPECT_EQ(y, (std::vector<float>{13, 14, 31.5F}));
  scalar::Scale(-1, x.data(), 3, y.data());
  EXPECT_EQ(y, (std::vector<float>{-1, 2, -0.5F}));
}

TEST(ScalarRowsTest, AllFinite) {
  std::vector<float> x(20, std::numeric_limits<float>::max());
  EXPECT_TRUE(scalar::AllFinite(x.data(), x.size()));
  EXPECT_TRUE(scalar::AllFinite(x.data(), 0));
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    x[19] = -bad;
    EXPECT_FALSE(scalar::AllFinite(x.data(), x.size()));
    EXPECT_TRUE(scalar::AllFinite(x.data(), 19));
  }
}

}  // namespace
}  // namespace picchio
