#include "apps/synth/synth_weights.h"

#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "apps/synth/shapes.h"
#include "support/test_support.h"

namespace picchio {
namespace {

std::vector<int32_t> Tokens(int32_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

ModelConfig ConfigOfShape(std::string_view shape) {
  return ModelConfig::Parse(ShapeConfig(shape, std::nullopt, 0).value(), shape).value();
}

struct Records {
  explicit Records(std::string_view shape, uint64_t seed = 1)
      : config(ConfigOfShape(shape)), weights(config, Tokens(8), 1, seed) {
    const bool mxfp4 = config.checkpoint_experts_mxfp4;
    layout = ExpertRecordLayout::Make(mxfp4 ? PayloadKind::kMxfp4 : PayloadKind::kInt4,
                                      mxfp4 ? RecordVersion::kV3 : RecordVersion::kV2,
                                      config.hidden_size, config.moe_intermediate_size,
                                      config.expert_bias)
                 .value();
  }
  std::vector<std::byte> Make(RecordPlace place) const {
    std::vector<std::byte> record(layout.record_bytes, std::byte{0xee});
    weights.FillRecord(layout, place, record);
    return record;
  }

  ModelConfig config;
  SynthWeights weights;
  ExpertRecordLayout layout;
};

std::array<size_t, 16> CountNibbles(std::span<const std::byte> bytes) {
  std::array<size_t, 16> counts{};
  for (const std::byte byte : bytes) {
    ++counts[static_cast<size_t>(byte & std::byte{15})];
    ++counts[static_cast<size_t>(byte >> 4)];
  }
  return counts;
}

TEST(SynthWeights, Int4CodesHaveNoMeanAndEveryRecordIsItsOwn) {
  const Records records("tiny-qwen3");
  const std::vector<std::byte> record = records.Make({1, 2});
  const auto codes = std::span(record).first(records.layout.gate_up.bytes);
  const std::array<size_t, 16> counts = CountNibbles(codes);
  const double n = static_cast<double>(codes.size()) * 2;
  EXPECT_EQ(counts[0], 0U);
  double mean = 0;
  for (size_t nibble = 1; nibble < 16; ++nibble) {
    const double expected = n / (nibble == 8 ? 8 : 16);
    EXPECT_NEAR(static_cast<double>(counts[nibble]), expected, 5 * std::sqrt(expected)) << nibble;
    mean += (static_cast<double>(nibble) - 8) * static_cast<double>(counts[nibble]) / n;
  }
  EXPECT_NEAR(mean, 0, 5 * 4.2 / std::sqrt(n));

  std::set<std::string> different;
  for (const RecordPlace place : {RecordPlace{1, 2}, {1, 3}, {2, 2}}) {
    const auto bytes = records.Make(place);
    different.emplace(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  EXPECT_EQ(different.size(), 3U);
  EXPECT_TRUE(Records("tiny-qwen3").Make({1, 2}) == record);
  EXPECT_FALSE(Records("tiny-qwen3", 2).Make({1, 2}) == record);
}

// As docs/synth.md says: products of unit inputs are of unit size.
TEST(SynthWeights, ScalesGiveUnitOutputs) {
  const Records records("tiny-qwen3");
  const std::vector<std::byte> record = records.Make({0, 0});
  const RecordPart& part = records.layout.gate_up_scales;
  std::vector<float> scales(part.bytes / sizeof(float));
  std::memcpy(scales.data(), record.data() + part.offset, part.bytes);
  double square = 0;
  for (const float scale : scales) {
    EXPECT_GT(scale, 0);
    square += scale * scale / static_cast<double>(scales.size());
  }
  // 256 weights of a row, codes with a mean square of 280 / 16.
  EXPECT_NEAR(256 * 17.5 * square, 1, 0.1);
}

TEST(SynthWeights, Mxfp4HasValidScalesAndClearedGaps) {
  const Records records("tiny-gpt-oss");
  const std::vector<std::byte> record = records.Make({0, 5});
  const ExpertRecordLayout& layout = records.layout;
  std::vector<bool> covered(record.size(), false);
  for (const RecordPart& part :
       {layout.gate_up, layout.gate_up_scales, layout.down, layout.down_scales}) {
    std::fill_n(covered.begin() + static_cast<ptrdiff_t>(part.offset), part.bytes, true);
  }
  for (size_t i = 0; i < record.size(); ++i) {
    if (covered[i]) continue;
    ASSERT_EQ(record[i], std::byte{0}) << i;
  }
  std::set<int> scales;
  for (const std::byte byte :
       std::span(record).subspan(layout.gate_up_scales.offset, layout.gate_up_scales.bytes)) {
    scales.insert(static_cast<int>(byte));
  }
  // 1/16 over 2.93 is 2^-5.55: 2^-5, which is 1.46 of it, and its half.
  EXPECT_EQ(scales, (std::set<int>{121, 122}));
  const std::array<size_t, 16> counts = CountNibbles(std::span(record).first(layout.gate_up.bytes));
  const double expected = static_cast<double>(layout.gate_up.bytes) / 8;
  for (const size_t count : counts) {
    EXPECT_NEAR(static_cast<double>(count), expected, 5 * std::sqrt(expected));
  }
}

TEST(TokenWalk, IsACircleWhoseNeighboursAreRelated) {
  constexpr size_t kSize = 512;
  const TokenWalk walk(Tokens(100), 120, kSize, 0.6, 3);
  EXPECT_EQ(std::set<int32_t>(walk.order().begin(), walk.order().end()).size(), 100U);
  EXPECT_TRUE(walk.Embedding(110).empty());
  const auto correlation = [&](size_t a, size_t b) {
    const auto x = walk.Embedding(walk.order()[a]);
    const auto y = walk.Embedding(walk.order()[b]);
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0) / kSize;
  };
  double by_lag[4] = {};
  for (size_t i = 0; i < 90; ++i) {
    for (size_t lag = 0; lag < 4; ++lag) by_lag[lag] += correlation(i, i + lag) / 90;
  }
  for (size_t lag = 0; lag < 4; ++lag) {
    EXPECT_NEAR(by_lag[lag], std::pow(0.6, static_cast<double>(lag)), 0.05) << lag;
  }
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(walk.PreviousEmbedding(walk.order()[(i + 1) % 100]).data(),
              walk.Embedding(walk.order()[i]).data());
  }
}

}  // namespace
}  // namespace picchio
