#include "format/int4.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "format/f32x4.h"
#include "format/finite.h"
#include "format/int4_search.h"

namespace picchio {
namespace {

using f32x4::Clamp;
using f32x4::F32x4;
using f32x4::Load;
using f32x4::Splat;

// The range in which the search's sums stay normal; outside it, absmax is as good as any.
constexpr float kMinSearchedPeak = 0x1p-100F;
constexpr float kMaxSearchedPeak = 0x1p100F;

using Weights = std::span<const float, kInt4Group>;

// What became of a group.
struct Encoding {
  alignas(16) std::array<uint8_t, kInt4Group> nibbles;
  float scale;
  double squared_error;
};

double SumOfSquares(Weights values) {
  std::array<double, 4> lanes{};
  for (size_t i = 0; i < kInt4Group; i += 4) {
    for (size_t k = 0; k < 4; ++k) {
      lanes[k] += static_cast<double>(values[i + k]) * static_cast<double>(values[i + k]);
    }
  }
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

void Encode(Weights weights, float scale, Encoding& encoding) {
  encoding.scale = scale;
  if (scale == 0) {
    encoding.nibbles.fill(8);
    encoding.squared_error = SumOfSquares(weights);
    return;
  }
  alignas(16) std::array<float, kInt4Group> lost;
  alignas(16) std::array<uint32_t, kInt4Group> rounded;
  for (size_t i = 0; i < kInt4Group; i += 4) {
    const F32x4 w = Load(&weights[i]);
    const F32x4 sum = Clamp(w / Splat(scale), -8, 7) + Splat(f32x4::kRoundingMagic);
    const F32x4 code = sum - Splat(f32x4::kRoundingMagic);
    f32x4::Store(w - code * Splat(scale), &lost[i]);
    std::memcpy(&rounded[i], &sum, sizeof(sum));
  }
  // The magic's own low bits are zero, so the sum's are the code in two's complement.
  for (size_t i = 0; i < kInt4Group; ++i) {
    encoding.nibbles[i] = static_cast<uint8_t>((rounded[i] + 8) & 15);
  }
  encoding.squared_error = SumOfSquares(lost);
}

void EncodeBest(Int4Scheme scheme, Weights weights, float max_abs, Encoding& encoding) {
  Encode(weights, max_abs / 7.0F, encoding);
  if (scheme == Int4Scheme::kAbsmax || max_abs < kMinSearchedPeak || max_abs > kMaxSearchedPeak) {
    return;
  }
  Encoding searched;
  Encode(weights, FindInt4Scale(weights, max_abs), searched);
  if (searched.squared_error < encoding.squared_error) encoding = searched;
}

// The nibbles of the group's first 2 * packed.size() elements.
void Pack(const Encoding& encoding, std::span<std::byte> packed) {
  std::array<std::byte, kInt4Group / 2> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(encoding.nibbles[2 * i] | (encoding.nibbles[2 * i + 1] << 4));
  }
  std::memcpy(packed.data(), bytes.data(), packed.size());
}

}  // namespace

Status QuantizeInt4(Int4Scheme scheme, Dtype dtype, std::span<const std::byte> weights, size_t cols,
                    size_t first_row, std::span<std::byte> packed, std::span<float> scales,
                    QuantError& error) {
  PICCHIO_CHECK(cols > 0 && cols % 2 == 0);
  const size_t row_bytes = cols * DtypeBytes(dtype);
  const size_t rows = weights.size() / row_bytes;
  const size_t groups = Int4GroupsPerRow(cols);
  PICCHIO_CHECK(weights.size() == rows * row_bytes && packed.size() == rows * (cols / 2) &&
                scales.size() == rows * groups);

  // Zeros after the end make the last group whole; they code as 0 and lose nothing.
  std::vector<float> row(groups * kInt4Group);
  Encoding encoding;
  for (size_t r = 0; r < rows; ++r) {
    WidenToF32(dtype, weights.subspan(r * row_bytes, row_bytes), std::span(row).first(cols));
    for (size_t g = 0; g < groups; ++g) {
      const size_t begin = g * kInt4Group;
      const Weights group(&row[begin], kInt4Group);
      float max_abs = 0;
      PICCHIO_RETURN_IF_ERROR(MaxMagnitude(group, first_row + r, begin, max_abs));
      EncodeBest(scheme, group, max_abs, encoding);
      Pack(encoding,
           packed.subspan((r * cols + begin) / 2, std::min(kInt4Group, cols - begin) / 2));
      scales[r * groups + g] = encoding.scale;
      error.Add({encoding.squared_error, SumOfSquares(group)});
    }
  }
  return Status::Ok();
}

}  // namespace picchio
