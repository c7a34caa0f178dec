#include "format/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace picchio {

Status MaxMagnitude(std::span<const float> weights, size_t row_idx, size_t first_col,
                    float& max_abs) {
  // As integers, magnitudes keep their order and NaN and infinity stand above all finite ones; and
  // unlike a maximum of floats, this one vectorises.
  int32_t max = 0;
  for (const float w : weights) {
    max = std::max(max, static_cast<int32_t>(std::bit_cast<uint32_t>(w) & 0x7fffffffU));
  }
  max_abs = std::bit_cast<float>(max);
  if (std::isfinite(max_abs)) return Status::Ok();
  const auto at =
      std::find_if(weights.begin(), weights.end(), [](float w) { return !std::isfinite(w); });
  return Error(Code::kCorrupt, "row {} column {} is {}: weights must be finite", row_idx,
               first_col + static_cast<size_t>(at - weights.begin()),
               std::isnan(*at) ? "NaN" : "infinite");
}

namespace {

// The index of the first element whose exponent bits are all set, or `count` if there is none.
template <typename Bits>
size_t FirstWithExponent(std::span<const std::byte> bytes, size_t count, Bits exponent) {
  // A scan without exits vectorises; the rare bad block is then looked at element by element.
  constexpr size_t kBlock = 4096;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    bool bad = false;
    for (size_t i = begin; i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
      bad |= (bits & exponent) == exponent;
    }
    if (!bad) continue;
    for (size_t i = begin; i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
      if ((bits & exponent) == exponent) return i;
    }
  }
  return count;
}

}  // namespace

size_t FirstNotFinite(Dtype dtype, std::span<const std::byte> weights) {
  const size_t count = weights.size() / DtypeBytes(dtype);
  if (dtype == Dtype::kF32) return FirstWithExponent<uint32_t>(weights, count, 0x7f800000U);
  if (dtype == Dtype::kBf16) return FirstWithExponent<uint16_t>(weights, count, uint16_t{0x7f80});
  if (dtype == Dtype::kF16) return FirstWithExponent<uint16_t>(weights, count, uint16_t{0x7c00});
  return count;
}

Status CheckFinite(Dtype dtype, std::span<const std::byte> weights, size_t cols, size_t first_row) {
  const size_t at = FirstNotFinite(dtype, weights);
  if (at == weights.size() / DtypeBytes(dtype)) return Status::Ok();
  return Error(Code::kCorrupt, "row {} column {} is NaN or infinite: weights must be finite",
               first_row + at / cols, at % cols);
}

}  // namespace picchio
