#include "format/int8.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "format/float16.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::Each;
using testing::ElementsAre;

struct QuantisedInt8 {
  std::vector<int8_t> codes;
  std::vector<float> scales;
  QuantError error;
};

Result<QuantisedInt8> Quantise(const std::vector<float>& w, size_t cols, size_t first_row = 0) {
  QuantisedInt8 q{std::vector<int8_t>(w.size()), std::vector<float>(w.size() / cols), {}};
  const Status status = QuantizeInt8(Dtype::kF32, std::as_bytes(std::span(w)), cols, first_row,
                                     q.codes, q.scales, q.error);
  if (!status.ok()) return status;
  return q;
}

TEST(Int8, ByHand) {
  ASSERT_OK_AND_ASSIGN(
      const QuantisedInt8 q,
      Quantise({127, -127, 0.5F, 1.5F, 2.5F, -2.5F, /**/ 0, 0, -0.0F, 0, 0, 0}, 6));
  EXPECT_THAT(q.scales, ElementsAre(1.0F, 0.0F));
  EXPECT_THAT(q.codes, ElementsAre(127, -127, 0, 2, 2, -2, 0, 0, 0, 0, 0, 0));
  EXPECT_DOUBLE_EQ(q.error.squared_error, 1.0);
  EXPECT_DOUBLE_EQ(q.error.squared_sum, 2 * 127.0 * 127 + 0.25 + 2.25 + 6.25 + 6.25);
}

TEST(Int8, MatchesTheDefinition) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const size_t cols : {1UL, 7UL, 64UL, 1001UL}) {
    std::vector<float> w(4 * cols);
    for (float& x : w) x = 0.02F * normal(random);
    ASSERT_OK_AND_ASSIGN(const QuantisedInt8 q, Quantise(w, cols));
    double error = 0;
    for (size_t row = 0; row < 4; ++row) {
      float max = 0;
      for (size_t i = 0; i < cols; ++i) max = std::max(max, std::abs(w[row * cols + i]));
      const volatile float scale = max / 127.0F;
      ASSERT_EQ(q.scales[row], scale);
      for (size_t i = 0; i < cols; ++i) {
        const volatile float ratio = w[row * cols + i] / scale;
        ASSERT_EQ(q.codes[row * cols + i], std::nearbyint(ratio));
        const double lost = w[row * cols + i] - std::nearbyint(ratio) * static_cast<double>(scale);
        error += lost * lost;
      }
    }
    EXPECT_NEAR(q.error.squared_error, error, 1e-4 * error + 1e-15);
  }
}

TEST(Int8, CoarseDenormalScalesAreClamped) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  ASSERT_OK_AND_ASSIGN(const QuantisedInt8 q, Quantise({180 * tiny, -180 * tiny, 60 * tiny}, 3));
  EXPECT_THAT(q.scales, ElementsAre(tiny));
  EXPECT_THAT(q.codes, ElementsAre(127, -127, 60));
  ASSERT_OK_AND_ASSIGN(const QuantisedInt8 zero, Quantise({60 * tiny, 0}, 2));
  EXPECT_THAT(zero.scales, ElementsAre(0.0F));
  EXPECT_THAT(zero.codes, Each(0));
  EXPECT_DOUBLE_EQ(zero.error.Relative(), 1.0);
  EXPECT_DOUBLE_EQ(QuantError().Relative(), 0.0);
}

TEST(Int8, NamesRowAndColumnOfWhatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Quantise({1, 2, 3, inf}, 2, 5), Fails(Code::kCorrupt, "row 6 column 1 is infinite"));
  EXPECT_THAT(Quantise({std::nanf(""), 2}, 2), Fails(Code::kCorrupt, "row 0 column 0 is NaN"));
}

TEST(Int8, ReadsBf16AndDecodes) {
  const std::vector<uint16_t> w = {F32ToBf16(254), F32ToBf16(-2), F32ToBf16(3)};
  QuantisedInt8 q{std::vector<int8_t>(3), std::vector<float>(1), {}};
  ASSERT_OK(
      QuantizeInt8(Dtype::kBf16, std::as_bytes(std::span(w)), 3, 0, q.codes, q.scales, q.error));
  EXPECT_THAT(q.codes, ElementsAre(127, -1, 2));
  std::vector<float> decoded(3);
  DecodeInt8Row(q.codes, q.scales[0], decoded);
  EXPECT_THAT(decoded, ElementsAre(254, -2, 4));
}

}  // namespace
}  // namespace picchio
