#include "kernels/rope.h"

#include <cmath>
#include <vector>

#include "format/npy.h"
#include "support/test_support.h"

namespace picchio {
namespace {

constexpr long double kPi = 3.14159265358979323846264338327950288L;

void ExpectFrequencies(const RopeTable& table, std::string_view fixture) {
  ASSERT_OK_AND_ASSIGN(const auto array, NpyArray::Load(TestData("fixtures") / Path(fixture) /
                                                        "golden" / "rope_inv_freq.npy"));
  ASSERT_OK_AND_ASSIGN(const auto expected, array.Values<float>());
  ASSERT_EQ(expected.size(), table.inverse_frequencies().size());
  for (size_t i = 0; i < expected.size(); ++i) {
    // The stored values are rounded to F32 once.
    EXPECT_NEAR(table.inverse_frequencies()[i] / double{expected[i]}, 1, 0x1.01p-24) << i;
  }
}

TEST(RopeTest, PlainFrequenciesEqualTheFixtures) {
  ExpectFrequencies(RopeTable(1e6, 32), "qwen3_moe_tiny");
  ExpectFrequencies(RopeTable(1e4, 32), "qwen3_moe_tiny_dense");
  ExpectFrequencies(RopeTable(1e6, 128), "qwen3_moe_long");
}

TEST(RopeTest, YarnFrequenciesEqualTheFixtures) {
  const YarnParameters tiny{.factor = 32, .original_max_positions = 256, .truncate = false};
  ExpectFrequencies(RopeTable(150000, 32, tiny), "gpt_oss_tiny");
  const YarnParameters real{.factor = 32, .original_max_positions = 4096, .truncate = false};
  ExpectFrequencies(RopeTable(150000, 64, real), "gpt_oss_long");
}

TEST(RopeTest, TruncatedYarnFrequenciesEqualTheFixture) {
  // The rotary part of the DeepSeek fixture: its rope_inv_freq.npy.
  const float expected[] = {0x1p0F,          0x1.e9c608p-3F,  0x1.a3d70ap-5F,  0x1.167b9ap-7F,
                            0x1.0624dep-12F, 0x1.4b96bep-14F, 0x1.a36e2ep-16F, 0x1.094566p-17F};
  const RopeTable table(10000, 16, {.factor = 40, .original_max_positions = 256});
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(table.inverse_frequencies()[i] / double{expected[i]}, 1, 0x1.01p-24) << i;
  }
}

TEST(RopeTest, AttentionFactors) {
  EXPECT_EQ(YarnAttentionFactor(1), 1);
  EXPECT_EQ(YarnAttentionFactor(0.5), 1);
  EXPECT_NEAR(YarnAttentionFactor(32), 1.3465735902799727, 1e-15);  // 0.1 ln 32 + 1
  EXPECT_EQ(YarnAttentionFactor(40, 1, 1), 1);
  EXPECT_NEAR(YarnAttentionFactor(40, 0.5, 1), (0.05 * std::log(40) + 1) / (0.1 * std::log(40) + 1),
              1e-15);
}

TEST(RopeTest, ARampWithoutWidthIsAStep) {
  // Both corrections beyond the last dimension: clamped to the same place.
  const YarnParameters yarn{.factor = 2, .original_max_positions = 1e30};
  const RopeTable table(10, 8, yarn);
  for (const double frequency : table.inverse_frequencies()) EXPECT_TRUE(std::isfinite(frequency));
}

TEST(RopeTest, CosSinAreWithinTheirBound) {
  const YarnParameters yarn{.factor = 32,
                            .original_max_positions = 4096,
                            .truncate = false,
                            .attention_factor = YarnAttentionFactor(32)};
  for (const RopeTable& table : {RopeTable(1e6, 128), RopeTable(150000, 64, yarn)}) {
    const size_t half = table.head_dim() / 2;
    const auto factor = static_cast<long double>(table.attention_factor());
    std::vector<float> cos(half);
    std::vector<float> sin(half);
    long double worst = 0;
    for (const size_t position : {0, 1, 2, 127, 4096, 40959, 131071, 524287, 1048575, 1048576}) {
      table.CosSin(position, cos.data(), sin.data());
      for (size_t i = 0; i < half; ++i) {
        // The frequencies themselves are held against the fixtures above; exact angles of these.
        const long double angle =
            static_cast<long double>(position) * table.inverse_frequencies()[i];
        worst = std::max(worst, std::fabs(cos[i] - std::cos(angle) * factor) / factor);
        worst = std::max(worst, std::fabs(sin[i] - std::sin(angle) * factor) / factor);
      }
    }
    EXPECT_LE(worst, 0x1p-24L + 0x1p-32L);
  }
}

TEST(RopeTest, FrequenciesAreNearlyExact) {
  const RopeTable table(1e6, 128);
  for (size_t i = 0; i < 64; ++i) {
    const long double exact = std::pow(1e6L, -static_cast<long double>(2 * i) / 128);
    EXPECT_LE(std::fabs(table.inverse_frequencies()[i] / exact - 1), 0x1p-47L) << i;
  }
}

TEST(RopeTest, FullTurnsReturn) {
  // theta is irrelevant to dimension 0, which turns one radian per position: 710 is 113 turns and
  // 6.03e-5 more.
  const RopeTable table(1e4, 2);
  float cos = 0;
  float sin = 0;
  table.CosSin(710, &cos, &sin);
  EXPECT_NEAR(sin, static_cast<double>(710 - 226 * kPi), 1e-11);
  EXPECT_NEAR(cos, 1, 1e-8);
}

}  // namespace
}  // namespace picchio
