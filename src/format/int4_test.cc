#include "format/int4.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "format/float16.h"
#include "format/int4_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::ElementsAre;

struct Quantised {
  std::vector<std::byte> packed;
  std::vector<float> scales;
  QuantError error;

  // The signed codes, [rows, cols].
  std::vector<int> Codes() const {
    std::vector<int> codes;
    for (const std::byte pair : packed) {
      codes.push_back(static_cast<int>(pair & std::byte{15}) - 8);
      codes.push_back(static_cast<int>(pair >> 4) - 8);
    }
    return codes;
  }
};

Result<Quantised> Quantise(Int4Scheme scheme, const std::vector<float>& w, size_t cols,
                           size_t first_row = 0) {
  const size_t rows = w.size() / cols;
  Quantised q{
      std::vector<std::byte>(w.size() / 2), std::vector<float>(rows * Int4GroupsPerRow(cols)), {}};
  const Status status = QuantizeInt4(scheme, Dtype::kF32, std::as_bytes(std::span(w)), cols,
                                     first_row, q.packed, q.scales, q.error);
  if (!status.ok()) return status;
  return q;
}

// The squared error of one group in F64, from codes and scale.
double GroupError(const std::vector<float>& w, const Quantised& q, size_t cols, size_t row,
                  size_t g) {
  const std::vector<int> codes = q.Codes();
  const float scale = q.scales[row * Int4GroupsPerRow(cols) + g];
  double error = 0;
  for (size_t i = g * 64; i < std::min(cols, (g + 1) * 64); ++i) {
    const double lost = w[row * cols + i] - static_cast<double>(codes[row * cols + i]) * scale;
    error += lost * lost;
  }
  return error;
}

std::vector<float> RandomRows(uint32_t seed, size_t n, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> w(n);
  for (float& x : w) {
    x = Bf16ToF32(F32ToBf16(0.02F * normal(random) * std::exp(spread * normal(random))));
  }
  return w;
}

TEST(Int4, AbsmaxByHand) {
  // max 7: the scale is 1 and codes are the values themselves, halves to even.
  ASSERT_OK_AND_ASSIGN(
      const Quantised q,
      Quantise(Int4Scheme::kAbsmax, {7, -7, 3.5F, 2.5F, -2.5F, 0.5F, 1.5F, -0.4F}, 8));
  EXPECT_THAT(q.scales, ElementsAre(1.0F));
  EXPECT_THAT(q.Codes(), ElementsAre(7, -7, 4, 2, -2, 0, 2, 0));
  EXPECT_EQ(q.packed[0], std::byte{0x1f});  // Element 0 low: 7 + 8; element 1 high: -7 + 8.
  EXPECT_DOUBLE_EQ(q.error.squared_error, 5 * 0.25 + static_cast<double>(0.4F) * 0.4F);
  EXPECT_DOUBLE_EQ(q.error.squared_sum,
                   49 + 49 + 12.25 + 6.25 + 6.25 + 0.25 + 2.25 + static_cast<double>(0.4F) * 0.4F);
}

// From the fixtures' notes: half the maximum is 3.5 codes, and F32 division decides which side.
TEST(Int4, DividesInF32) {
  for (const float max : {3.0F, 6.0F, 12.0F, 0.75F}) {
    ASSERT_OK_AND_ASSIGN(const Quantised q, Quantise(Int4Scheme::kAbsmax, {max, max / 2}, 2));
    EXPECT_THAT(q.Codes(), ElementsAre(7, 4)) << max;
  }
  for (const float max : {1.0F, 2.0F, 4.0F, 0.5F}) {
    ASSERT_OK_AND_ASSIGN(const Quantised q, Quantise(Int4Scheme::kAbsmax, {max, max / 2}, 2));
    EXPECT_THAT(q.Codes(), ElementsAre(7, 3)) << max;
  }
}

TEST(Int4, AbsmaxMatchesTheDefinition) {
  for (const size_t cols : {2UL, 48UL, 64UL, 66UL, 192UL, 200UL}) {
    const std::vector<float> w = RandomRows(7, 5 * cols, 0.7F);
    ASSERT_OK_AND_ASSIGN(const Quantised q, Quantise(Int4Scheme::kAbsmax, w, cols));
    const std::vector<int> codes = q.Codes();
    double error = 0;
    double sum = 0;
    for (size_t row = 0; row < 5; ++row) {
      for (size_t begin = 0; begin < cols; begin += 64) {
        const size_t end = std::min(cols, begin + 64);
        float max = 0;
        for (size_t i = begin; i < end; ++i) max = std::max(max, std::abs(w[row * cols + i]));
        const volatile float scale = max / 7.0F;
        ASSERT_EQ(q.scales[row * Int4GroupsPerRow(cols) + begin / 64], scale);
        for (size_t i = begin; i < end; ++i) {
          const volatile float ratio = w[row * cols + i] / scale;
          const float code = std::clamp(std::nearbyint(ratio), -8.0F, 7.0F);
          ASSERT_EQ(static_cast<float>(codes[row * cols + i]), code);
          const double lost = w[row * cols + i] - static_cast<double>(code) * scale;
          error += lost * lost;
          sum += static_cast<double>(w[row * cols + i]) * w[row * cols + i];
        }
      }
    }
    EXPECT_NEAR(q.error.squared_error, error, 1e-5 * error);
    EXPECT_NEAR(q.error.squared_sum, sum, 1e-12 * sum);
    EXPECT_NEAR(q.error.Relative(), std::sqrt(error / sum), 1e-5);
  }
}

TEST(Int4, ZeroAndTinyGroupsHaveScaleZero) {
  std::vector<float> w(192, 0.0F);
  w[1] = -0.0F;
  w[64] = std::numeric_limits<float>::denorm_min();  // A seventh of it rounds to 0.
  w[129] = 1;
  for (const Int4Scheme scheme : {Int4Scheme::kAbsmax, Int4Scheme::kMse}) {
    ASSERT_OK_AND_ASSIGN(const Quantised q, Quantise(scheme, w, 192));
    EXPECT_EQ(q.scales[0], 0.0F);
    EXPECT_EQ(q.scales[1], 0.0F);
    EXPECT_NE(q.scales[2], 0.0F);
    const std::vector<int> codes = q.Codes();
    EXPECT_TRUE(std::all_of(codes.begin(), codes.begin() + 128, [](int c) { return c == 0; }));
  }
}

TEST(Int4, ExtremesStayFinite) {
  // Denormal scales are coarse: ratios beyond 7 are clamped. Huge ones must not overflow either.
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = Bf16ToF32(0x7f7f);
  for (const Int4Scheme scheme : {Int4Scheme::kAbsmax, Int4Scheme::kMse}) {
    ASSERT_OK_AND_ASSIGN(const Quantised low,
                         Quantise(scheme, {10 * tiny, -10 * tiny, 4 * tiny, 0}, 4));
    EXPECT_THAT(low.scales, ElementsAre(tiny));
    EXPECT_THAT(low.Codes(), ElementsAre(7, -8, 4, 0));
    ASSERT_OK_AND_ASSIGN(const Quantised high, Quantise(scheme, {huge, -huge, huge / 2, 0}, 4));
    std::vector<float> decoded(4);
    DecodeInt4Row(high.packed, high.scales, decoded);
    for (const float x : decoded) EXPECT_TRUE(std::isfinite(x));
  }
}

TEST(Int4, NamesRowAndColumnOfWhatIsNotFinite) {
  std::vector<float> w = RandomRows(1, 3 * 130, 0);
  w[2 * 130 + 129] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Quantise(Int4Scheme::kAbsmax, w, 130, 10),
              Fails(Code::kCorrupt, "row 12 column 129 is NaN"));
  w[130 + 5] = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(Quantise(Int4Scheme::kMse, w, 130),
              Fails(Code::kCorrupt, "row 1 column 5 is infinite"));
}

TEST(Int4, TypesAndSplitsDoNotMatter) {
  constexpr size_t kCols = 96;
  const std::vector<float> w = RandomRows(3, 6 * kCols, 0.5F);
  std::vector<uint16_t> bf16(w.size());
  std::transform(w.begin(), w.end(), bf16.begin(), F32ToBf16);
  for (const Int4Scheme scheme : {Int4Scheme::kAbsmax, Int4Scheme::kMse}) {
    ASSERT_OK_AND_ASSIGN(const Quantised whole, Quantise(scheme, w, kCols));
    Quantised rows = whole;
    std::fill(rows.packed.begin(), rows.packed.end(), std::byte{0});
    for (size_t r = 0; r < 6; r += 2) {
      ASSERT_OK(QuantizeInt4(scheme, Dtype::kBf16,
                             std::as_bytes(std::span(bf16).subspan(r * kCols, 2 * kCols)), kCols, r,
                             std::span(rows.packed).subspan(r * kCols / 2, kCols),
                             std::span(rows.scales).subspan(r * 2, 4), rows.error));
    }
    EXPECT_EQ(rows.packed, whole.packed);
    EXPECT_EQ(rows.scales, whole.scales);
  }
}

TEST(Int4, DecodesByCodeTimesScale) {
  const std::vector<std::byte> packed = {std::byte{0x80}, std::byte{0xf7}};
  std::vector<float> out(4);
  DecodeInt4Row(packed, std::vector<float>{-0.5F}, out);
  EXPECT_THAT(out, ElementsAre(4.0F, 0.0F, 0.5F, -3.5F));
  // The second group has its own scale.
  std::vector<std::byte> wide(33, std::byte{0x99});
  std::vector<float> row(66);
  DecodeInt4Row(wide, std::vector<float>{2.0F, 3.0F}, row);
  EXPECT_EQ(row[63], 2.0F);
  EXPECT_EQ(row[64], 3.0F);
}

TEST(Int4, MseIsNeverWorseThanAbsmaxInAnyGroup) {
  for (const float spread : {0.0F, 0.5F, 1.5F}) {
    constexpr size_t kCols = 160;  // The last group is short.
    const std::vector<float> w = RandomRows(11, 40 * kCols, spread);
    ASSERT_OK_AND_ASSIGN(const Quantised absmax, Quantise(Int4Scheme::kAbsmax, w, kCols));
    ASSERT_OK_AND_ASSIGN(const Quantised mse, Quantise(Int4Scheme::kMse, w, kCols));
    for (size_t row = 0; row < 40; ++row) {
      for (size_t g = 0; g < 3; ++g) {
        // The comparison inside is on decoded values, rounded to F32: hence the tolerance.
        const double limit = GroupError(w, absmax, kCols, row, g) * (1 + 1e-5);
        ASSERT_LE(GroupError(w, mse, kCols, row, g), limit);
      }
    }
    EXPECT_LT(mse.error.squared_error, 0.85 * absmax.error.squared_error);
  }
}

}  // namespace
}  // namespace picchio
