#include "format/mxfp4.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "format/dtype.h"

namespace picchio {
namespace {

constexpr std::array<float, 16> kE2M1 = {0,     0.5F,  1,     1.5F,  2,     3,     4,     6,
                                         -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
// 6 * 2^125 is the largest multiple of 6 that fits; above this scale some codes overflow.
constexpr uint8_t kLastSafeScale = 252;

Status BadScale(size_t row_idx, size_t block) {
  return Error(Code::kCorrupt, "row {} block {}: its MXFP4 scale is 255, which stands for NaN",
               row_idx, block);
}

Status TooLarge(size_t row_idx, size_t block, uint8_t e) {
  return Error(Code::kUnsupported,
               "row {} block {}: with an MXFP4 scale of 2^{} it has values beyond 32-bit floats",
               row_idx, block, int{e} - 127);
}

bool Overflows(std::span<const std::byte> block, float scale) {
  return std::any_of(block.begin(), block.end(), [scale](std::byte pair) {
    return std::isinf(E2M1ToF32(static_cast<uint8_t>(pair)) * scale) ||
           std::isinf(E2M1ToF32(static_cast<uint8_t>(pair >> 4)) * scale);
  });
}

uint16_t Narrow(float value, uint16_t) {
  // A code has one fraction bit: the low half of its F32 is zero, for denormals too.
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}
float Narrow(float value, float) { return value; }

template <typename Out>
Status Decode(std::span<const std::byte> blocks, std::span<const std::byte> scales, size_t cols,
              size_t first_row, std::span<Out> out) {
  PICCHIO_CHECK(cols > 0 && cols % kMxfp4Block == 0 && out.size() % cols == 0);
  PICCHIO_CHECK(blocks.size() * 2 == out.size() && scales.size() * kMxfp4Block == out.size());
  const size_t blocks_per_row = cols / kMxfp4Block;
  for (size_t b = 0; b < scales.size(); ++b) {
    const size_t row_idx = first_row + b / blocks_per_row;
    const auto e = static_cast<uint8_t>(scales[b]);
    if (e == kE8M0Nan) return BadScale(row_idx, b % blocks_per_row);
    std::array<Out, 16> values;
    const float scale = E8M0ToF32(e);
    for (size_t code = 0; code < values.size(); ++code)
      values[code] = Narrow(kE2M1[code] * scale, Out{});
    const std::span<const std::byte> block = blocks.subspan(b * kMxfp4BlockBytes, kMxfp4BlockBytes);
    if (e > kLastSafeScale && Overflows(block, scale)) {
      return TooLarge(row_idx, b % blocks_per_row, e);
    }
    for (size_t i = 0; i < kMxfp4BlockBytes; ++i) {
      const auto pair = static_cast<uint8_t>(block[i]);
      out[b * kMxfp4Block + 2 * i] = values[pair & 15];
      out[b * kMxfp4Block + 2 * i + 1] = values[pair >> 4];
    }
  }
  return Status::Ok();
}

}  // namespace

float E2M1ToF32(uint8_t code) { return kE2M1[code & 15]; }

float E8M0ToF32(uint8_t e) {
  PICCHIO_DCHECK(e != kE8M0Nan);
  return std::bit_cast<float>(e == 0 ? 0x00400000U : static_cast<uint32_t>(e) << 23);
}

Status CheckMxfp4Scales(std::span<const std::byte> scales, size_t cols, size_t first_row) {
  PICCHIO_CHECK(cols > 0 && cols % kMxfp4Block == 0);
  const size_t blocks_per_row = cols / kMxfp4Block;
  const auto bad = std::find(scales.begin(), scales.end(), std::byte{kE8M0Nan});
  if (bad != scales.end()) {
    const auto b = static_cast<size_t>(bad - scales.begin());
    return BadScale(first_row + b / blocks_per_row, b % blocks_per_row);
  }
  return Status::Ok();
}

Status DecodeMxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                   size_t cols, size_t first_row, std::span<float> out) {
  return Decode(blocks, scales, cols, first_row, out);
}

Status DecodeMxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                   size_t cols, size_t first_row, std::span<uint16_t> out) {
  return Decode(blocks, scales, cols, first_row, out);
}

}  // namespace picchio
