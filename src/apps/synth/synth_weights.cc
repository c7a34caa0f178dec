#include "apps/synth/synth_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "apps/synth/expert_popularity.h"
#include "base/check.h"
#include "format/float16.h"

namespace picchio {
namespace {

// Of RandomStream, beside those of the walk.
constexpr uint64_t kRankStream = 3;
constexpr uint64_t kRecordStream = 4;
constexpr uint64_t kTensorStream = 5;

// What the common coordinates of every embedding are; the others have a variance of 1.
constexpr float kCommonValue = 1.25F;
// The logit of the token that the walk goes to next, before the stream's norm divides it; all
// others are near 0. A softmax gives it all but a few percent.
constexpr double kNextLogit = 12;
// The squares of what all layers together add to the stream, relative to the embedding's.
constexpr double kAddedSquare = 0.25;
// Root mean squares: of a random code of [-7, 7] with 0 twice as likely; of an E2M1 value; of
// silu(g) u and of the clamped g sigmoid(1.702 g) (u + 1) for unit normal g and u.
constexpr double kInt4Rms = 4.1833;
constexpr double kE2m1Rms = 2.9262;
constexpr double kSwigluRms = 0.6;
constexpr double kClampedSwigluRms = 0.9;
// The scales of a matrix vary around their mean.
constexpr std::array<float, 4> kScaleFactors = {0.75F, 0.9F, 1.1F, 1.2F};

uint64_t HashOf(std::string_view name) {  // FNV-1a.
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3U;
  return hash;
}

void FillWords(RandomStream& random, std::span<std::byte> out, auto word_of) {
  size_t at = 0;
  for (; at + 8 <= out.size(); at += 8) {
    const uint64_t word = word_of(random.Next());
    std::memcpy(out.data() + at, &word, 8);
  }
  const uint64_t word = word_of(random.Next());
  std::memcpy(out.data() + at, &word, out.size() - at);
}

// Nibble 0 is code -8; as code 0 (nibble 8) instead, codes have a mean of 0.
uint64_t Balanced(uint64_t nibbles) {
  uint64_t any = nibbles | nibbles >> 1;
  any |= any >> 2;
  return nibbles | (~any & 0x1111111111111111U) << 3;
}

void FillInt4Scales(RandomStream& random, double rms, std::span<std::byte> out) {
  std::array<float, 4> scales;
  for (size_t i = 0; i < 4; ++i) scales[i] = kScaleFactors[i] * static_cast<float>(rms / kInt4Rms);
  uint64_t bits = 0;
  for (size_t at = 0; at < out.size(); at += sizeof(float)) {
    if (at % (32 * sizeof(float)) == 0) bits = random.Next();
    std::memcpy(out.data() + at, &scales[bits & 3], sizeof(float));
    bits >>= 2;
  }
}

// Powers of two: one from 3/4 to 3/2 of the wanted scale for three blocks of four, else half of it.
void FillMxfp4Scales(RandomStream& random, double rms, std::span<std::byte> out) {
  int exponent = 0;
  std::frexp(0.75 * rms / kE2m1Rms, &exponent);
  const auto scale = uint64_t{static_cast<uint32_t>(127 + exponent)};
  FillWords(random, out, [&](uint64_t bits) {
    const uint64_t lowered = bits & (bits >> 1) & 0x0101010101010101U;
    return scale * 0x0101010101010101U - lowered;
  });
}

void FillBf16(RandomStream& random, double rms, std::span<std::byte> out) {
  std::vector<float> values(out.size() / sizeof(uint16_t));
  random.FillNormal(values, static_cast<float>(rms));
  std::ranges::transform(values, reinterpret_cast<uint16_t*>(out.data()), F32ToBf16);
}

}  // namespace

SynthWeights::SynthWeights(const ModelConfig& config, std::vector<int32_t> tokens, double skew,
                           uint64_t seed)
    : config_(config),
      seed_(seed),
      common_(config.hidden_size / 16),
      block_output_(std::sqrt(kAddedSquare / (2.0 * config.num_hidden_layers))),
      shares_(ExpertShares(config.num_experts, config.experts_per_token, skew)),
      walk_(std::move(tokens), config.vocab_size, config.hidden_size - common_,
            TokenCorrelation(skew), seed) {}

double SynthWeights::RmsOf(const ExpectedTensor& tensor) const {
  const auto cols = static_cast<double>(tensor.shape.back());
  switch (tensor.tensor_class) {
    case TensorClass::kEmbedding:
      return 1;
    case TensorClass::kHead:
      return kNextLogit / (cols - static_cast<double>(common_));
    default:
      return tensor.name.ends_with("o_proj.weight") ? block_output_ / std::sqrt(cols)
                                                    : 1 / std::sqrt(cols);
  }
}

void SynthWeights::FillRow(const ExpectedTensor& tensor, uint64_t row, std::span<float> out) const {
  const auto rms = static_cast<float>(RmsOf(tensor));
  RandomStream random(seed_, kTensorStream, HashOf(tensor.name), row);
  // Coordinates of the embedding or head, `chain` (times rms) where the walk comes to the token.
  const auto fill_token = [&](float common, std::span<const float> chain) {
    const auto own = out.subspan(common_);
    std::fill_n(out.begin(), common_, common);
    if (chain.empty()) return random.FillNormal(own, rms);
    std::ranges::transform(chain, own.begin(), [&](float value) { return value * rms; });
  };
  switch (tensor.tensor_class) {
    case TensorClass::kNorm:
      std::ranges::fill(out, 1.0F);
      // Attention must not turn what all tokens have in common into more of the same.
      if (tensor.name.ends_with("input_layernorm.weight")) {
        std::fill_n(out.begin(), common_, 0.0F);
      }
      return;
    case TensorClass::kEmbedding:
      return fill_token(kCommonValue, walk_.Embedding(static_cast<int32_t>(row)));
    case TensorClass::kHead:
      return fill_token(0, walk_.PreviousEmbedding(static_cast<int32_t>(row)));
    case TensorClass::kRouter:
      if (tensor.shape.size() == 2) return FillRouterRow(tensor, row, out);
      break;
    case TensorClass::kAttention:
      if (tensor.shape.size() == 2) return random.FillNormal(out, rms);
      break;
    case TensorClass::kExpertBias:
      break;
    case TensorClass::kDenseMlp:
    case TensorClass::kExpert:
      PICCHIO_CHECK(false);  // No shape has dense layers; experts are FillRecord's.
  }
  std::ranges::fill(out, 0.0F);  // Biases and sinks.
}

void SynthWeights::FillRouterRow(const ExpectedTensor& tensor, uint64_t expert,
                                 std::span<float> out) const {
  const double share = SharesOf(static_cast<uint32_t>(tensor.layer))[expert];
  std::fill_n(out.begin(), common_,
              static_cast<float>(ShareBias(share) / (kCommonValue * static_cast<double>(common_))));
  RandomStream random(seed_, kTensorStream, HashOf(tensor.name), expert);
  const auto own = out.subspan(common_);
  random.FillNormal(own, static_cast<float>(1 / std::sqrt(static_cast<double>(own.size()))));
}

std::vector<uint32_t> SynthWeights::RanksOf(uint32_t layer) const {
  std::vector<uint32_t> ranks(config_.num_experts);
  std::iota(ranks.begin(), ranks.end(), 0U);
  RandomStream shuffle(seed_, kRankStream, layer);
  for (size_t i = ranks.size() - 1; i > 0; --i) std::swap(ranks[i], ranks[shuffle.Below(i + 1)]);
  return ranks;
}

std::vector<double> SynthWeights::SharesOf(uint32_t layer) const {
  std::vector<double> shares;
  for (const uint32_t rank : RanksOf(layer)) shares.push_back(shares_[rank]);
  return shares;
}

void SynthWeights::FillRecord(const ExpertRecordLayout& layout, RecordPlace place,
                              std::span<std::byte> record) const {
  RandomStream random(seed_, kRecordStream, place.layer, place.expert);
  const double inner = (config_.clamped_swiglu ? kClampedSwigluRms : kSwigluRms) *
                       std::sqrt(layout.intermediate_size);
  uint64_t done = 0;
  const auto part = [&](const RecordPart& part_of) {
    if (part_of.bytes == 0) return record.first(0);
    std::memset(record.data() + done, 0, part_of.offset - done);
    done = part_of.offset + part_of.bytes;
    return record.subspan(part_of.offset, part_of.bytes);
  };
  const auto matrix = [&](const RecordPart& codes, const RecordPart& scales, double rms) {
    switch (layout.kind) {
      case PayloadKind::kInt4:
        FillWords(random, part(codes), Balanced);
        return FillInt4Scales(random, rms, part(scales));
      case PayloadKind::kMxfp4:
        // Every E2M1 nibble has one of the opposite sign: random ones have a mean of 0 as they are.
        FillWords(random, part(codes), std::identity());
        return FillMxfp4Scales(random, rms, part(scales));
      case PayloadKind::kBf16:
        return FillBf16(random, rms, part(codes));
    }
  };
  matrix(layout.gate_up, layout.gate_up_scales, 1 / std::sqrt(layout.hidden_size));
  matrix(layout.down, layout.down_scales, block_output_ / inner);
  for (const RecordPart& biases : {layout.gate_up_bias, layout.down_bias}) {
    std::ranges::fill(part(biases), std::byte{0});
  }
}

}  // namespace picchio
