#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/equality_test_support.h"
#include "kernels/scalar.h"

namespace picchio {
namespace {

TEST(ScalarQuantizeTest, CodesAreNearestAndScalesMakeTheLargest127) {
  RandomInputs random(21);
  for (const size_t cols : {8, 64, 72, 128, 160}) {
    for (const auto kind :
         {ActivationKind::kForInt4, ActivationKind::kForInt8, ActivationKind::kForMxfp4}) {
      const auto x = random.Gaussian(cols);
      const QuantizedStorage storage(kind, cols, 1);
      const QuantizedRows& q = storage.rows();
      scalar::Quantize({x.data(), 1, cols}, q);
      int largest = 0;
      for (size_t i = 0; i < cols; ++i) {
        const int code = q.codes(0)[QuantizedRows::CodeIndex(kind, i)];
        const double s = q.scales(0)[i / GroupSize(kind)];
        largest = std::max(largest, std::abs(code));
        EXPECT_LE(std::fabs(x[i] - s * code), s * (0.5 + 127 * 0x1p-22));
      }
      EXPECT_EQ(largest, 127);
    }
  }
}

TEST(ScalarQuantizeTest, OffsetsAreTheBiasedWeightsExcess) {
  RandomInputs random(22);
  constexpr size_t kCols = 96;
  for (const auto kind :
       {ActivationKind::kForInt4, ActivationKind::kForInt8, ActivationKind::kForMxfp4}) {
    const auto x = random.Gaussian(kCols);
    const QuantizedStorage storage(kind, kCols, 1);
    const QuantizedRows& q = storage.rows();
    scalar::Quantize({x.data(), 1, kCols}, q);
    std::vector<int32_t> expected(q.num_groups() * 8);
    for (size_t i = 0; i < kCols; ++i) {
      const size_t g = i / GroupSize(kind);
      const size_t in_group = i % GroupSize(kind);
      size_t lane = in_group / 8;  // INT4: elements 8j..8j+7.
      if (kind == ActivationKind::kForInt8) lane = in_group % 32 / 4;
      if (kind == ActivationKind::kForMxfp4) lane = in_group / 8 + in_group % 2 * 4;
      expected[g * 8 + lane] -= WeightBias(kind) * q.codes(0)[QuantizedRows::CodeIndex(kind, i)];
    }
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(q.offsets(0)[i], expected[i]);
  }
}

TEST(ScalarQuantizeTest, TiesGoToTheEvenCode) {
  std::vector<float> x(64, 0.0F);
  x[0] = 127;  // s = 1
  x[1] = 0.5F;
  x[2] = 1.5F;
  x[3] = -2.5F;
  x[4] = -3.5F;
  const QuantizedStorage storage(ActivationKind::kForInt8, 64, 1);
  scalar::Quantize({x.data(), 1, 64}, storage.rows());
  const int8_t* codes = storage.rows().codes(0);
  EXPECT_EQ(codes[1], 0);
  EXPECT_EQ(codes[2], 2);
  EXPECT_EQ(codes[3], -2);
  EXPECT_EQ(codes[4], -4);
}

TEST(ScalarQuantizeTest, AGroupBelowTheThresholdIsZero) {
  const std::vector<float> below(64, std::nextafter(0x1p-100F, 0.0F));
  const std::vector<float> at(64, -0x1p-100F);
  const QuantizedStorage storage(ActivationKind::kForInt4, 64, 1);
  const QuantizedRows& q = storage.rows();
  scalar::Quantize({below.data(), 1, 64}, q);
  EXPECT_EQ(q.scales(0)[0], 0.0F);
  EXPECT_EQ(q.codes(0)[5], 0);
  EXPECT_EQ(q.offsets(0)[5], 0);
  scalar::Quantize({at.data(), 1, 64}, q);
  EXPECT_EQ(q.scales(0)[0], 0x1p-100F / 127.0F);
  EXPECT_EQ(q.codes(0)[5], -127);
}

TEST(ScalarQuantizeTest, WhatIsNotFiniteReachesTheScale) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const size_t at : {0, 7, 63}) {
      std::vector<float> x(64, 1.0F);
      x[at] = -bad;
      const QuantizedStorage storage(ActivationKind::kForInt4, 64, 1);
      scalar::Quantize({x.data(), 1, 64}, storage.rows());
      EXPECT_FALSE(std::isfinite(storage.rows().scales(0)[0]));
    }
  }
}

}  // namespace
}  // namespace picchio
