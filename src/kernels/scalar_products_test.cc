// The scalar products against F64, with tolerances from the number of roundings.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/equality_test_support.h"
#include "kernels/float_bits.h"
#include "kernels/scalar.h"

namespace picchio {
namespace {

constexpr double kEpsilon = 0x1p-24;  // Half a unit in the last place of 1.

// What a sum of products is in F64, and the sum of the magnitudes, to which errors are relative.
struct Exact {
  double sum = 0;
  double magnitude = 0;

  void Add(double term) {
    sum += term;
    magnitude += std::fabs(term);
  }
  // `roundings` in a row on the way to a result. Half a unit again for each: products of (1 + e).
  double Tolerance(size_t roundings) const {
    return static_cast<double>(roundings) * 1.01 * kEpsilon * magnitude + 1e-40;
  }
};

// fma in each lane, four folds.
size_t DotRoundings(size_t n) { return (n + 15) / 16 + 4; }
// The scale's product, fma per group, three folds.
size_t GroupRoundings(size_t num_groups) { return num_groups + 4; }

TEST(ScalarProductsTest, Dot16IsWithinItsRoundings) {
  RandomInputs random(11);
  for (size_t n = 0; n < 200; ++n) {
    const auto w = random.Gaussian(n);
    const auto x = random.Gaussian(n);
    Exact exact;
    for (size_t i = 0; i < n; ++i) exact.Add(double{w[i]} * x[i]);
    EXPECT_NEAR(scalar::Dot16(w.data(), x.data(), n), exact.sum, exact.Tolerance(DotRoundings(n)));
  }
}

TEST(ScalarProductsTest, TreeAddsInItsOrder) {
  // 2^24 swallows a 1 added to it, so the order shows: ((a0 + a4) + (a2 + a6)) + (...).
  const float acc[8] = {0x1p24F, 1, 0, 0, 1, 1, 1, 0};
  // a0 + a4 = 2^24 (the 1 is lost), + (a2 + a6 = 1) lost; a1 + a5 = 2; 2^24 + 2.
  EXPECT_EQ(scalar::Tree8(acc), 0x1p24F + 2);
}

TEST(ScalarProductsTest, QuantizedProductsAreThoseOfTheQuantizedValues) {
  RandomInputs random(12);
  for (const size_t cols : {32, 64, 96, 128, 160, 2048}) {
    const size_t rows = 3;
    const auto x = random.Gaussian(cols);
    const auto codes = random.Integers<uint8_t>(rows * cols);
    const auto scales = random.Gaussian(rows * ((cols + 63) / 64));
    std::vector<uint8_t> exponents(rows * cols / 32);
    for (uint8_t& e : exponents) e = static_cast<uint8_t>(120 + random.Below(10));
    const Int4Matrix int4{codes.data(), scales.data(), rows, cols};
    const Int8Matrix int8{reinterpret_cast<const int8_t*>(codes.data()), scales.data(), rows, cols};
    const Mxfp4Matrix mxfp4{codes.data(), exponents.data(), rows, cols};
    for (const auto kind :
         {ActivationKind::kForInt4, ActivationKind::kForInt8, ActivationKind::kForMxfp4}) {
      const QuantizedStorage storage(kind, cols, 1);
      const QuantizedRows& q = storage.rows();
      scalar::Quantize({x.data(), 1, cols}, q);
      std::vector<float> y(rows);
      if (kind == ActivationKind::kForInt4) scalar::MatmulInt4(int4, {0, rows}, q, {y.data(), 0});
      if (kind == ActivationKind::kForInt8) scalar::MatmulInt8(int8, {0, rows}, q, {y.data(), 0});
      if (kind == ActivationKind::kForMxfp4) {
        scalar::MatmulMxfp4(mxfp4, {0, rows}, q, {y.data(), 0});
      }
      for (size_t r = 0; r < rows; ++r) {
        Exact exact;
        Exact unquantized;
        double slack = 0;  // Half a step of each activation.
        for (size_t c = 0; c < cols; ++c) {
          const int nibble = codes[(r * cols + c) / 2] >> (c % 2 * 4) & 15;
          double w = 0;
          if (kind == ActivationKind::kForInt4) {
            w = (nibble - 8) * double{scales[r * ((cols + 63) / 64) + c / 64]};
          } else if (kind == ActivationKind::kForInt8) {
            w = static_cast<int8_t>(codes[r * cols + c]) * double{scales[r]};
          } else {
            // The codes of OCP Microscaling Formats 1.0, section 5.3.3.
            const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
            w = std::ldexp(nibble < 8 ? e2m1[nibble] : -e2m1[nibble - 8],
                           exponents[(r * cols + c) / 32] - 127);
          }
          const double s = q.scales(0)[c / GroupSize(kind)];
          exact.Add(w * s * q.codes(0)[QuantizedRows::CodeIndex(kind, c)]);
          unquantized.Add(w * x[c]);
          slack += std::fabs(w) * s * 0.5001;
        }
        EXPECT_NEAR(y[r], exact.sum, exact.Tolerance(GroupRoundings(q.num_groups()) + 1));
        EXPECT_NEAR(y[r], unquantized.sum, slack + exact.Tolerance(64));
      }
    }
  }
}

TEST(ScalarProductsTest, DecodedProductsAreThoseOfTheDecodedWeights) {
  RandomInputs random(13);
  for (const size_t cols : {32, 64, 96, 160, 768}) {
    const auto x = random.Gaussian(cols);
    const auto codes = random.Integers<uint8_t>(cols);
    const auto scales = random.Gaussian((cols + 63) / 64);
    const std::vector<uint8_t> exponents(cols / 32, 125);
    Exact int4;
    Exact int8;
    Exact mxfp4;
    for (size_t c = 0; c < cols; ++c) {
      const int nibble = codes[c / 2] >> (c % 2 * 4) & 15;
      int4.Add((nibble - 8) * double{scales[c / 64]} * x[c]);
      int8.Add(static_cast<int8_t>(codes[c]) * double{scales[0]} * x[c]);
      mxfp4.Add(kTwiceE2m1[nibble] * 0x1p-3 * double{x[c]});
    }
    float y = 0;
    scalar::MatmulInt4F32({codes.data(), scales.data(), 1, cols}, {0, 1}, {x.data(), 1, cols},
                          {&y, 1});
    EXPECT_NEAR(y, int4.sum, int4.Tolerance(DotRoundings(cols) + 1));
    scalar::MatmulInt8F32({reinterpret_cast<const int8_t*>(codes.data()), scales.data(), 1, cols},
                          {0, 1}, {x.data(), 1, cols}, {&y, 1});
    EXPECT_NEAR(y, int8.sum, int8.Tolerance(DotRoundings(cols) + 1));
    scalar::MatmulMxfp4F32({codes.data(), exponents.data(), 1, cols}, {0, 1}, {x.data(), 1, cols},
                           {&y, 1});
    EXPECT_NEAR(y, mxfp4.sum, mxfp4.Tolerance(DotRoundings(cols)));
  }
}

}  // namespace
}  // namespace picchio
