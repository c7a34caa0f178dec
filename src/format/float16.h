// The two 16-bit float formats as raw bits, and their exact or correctly rounded ways to and from
// F32. Integer operations only, so the results do not depend on the thread's denormal or rounding
// modes.
#pragma once

#include <bit>
#include <cstdint>

namespace picchio {

// bfloat16 (sign, 8 exponent bits, 7 fraction bits) to F32. Exact.
inline float Bf16ToF32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// F32 to bfloat16, round to nearest, ties to even. What rounds past the largest finite value
// becomes infinity; NaN stays NaN and is made quiet, because cutting its fraction could leave an
// infinity.
inline uint16_t F32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  const uint32_t round = 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<uint16_t>((bits + round) >> 16);
}

// binary16 (IEEE 754-2019 section 3.6: sign, 5 exponent bits, 10 fraction bits) to F32. Exact; NaN
// keeps its fraction and is made quiet.
inline float F16ToF32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU;
  uint32_t fraction = bits & 0x3ffU;
  if (exponent == 31) {
    const uint32_t quiet = fraction == 0 ? 0 : 0x400000U;
    return std::bit_cast<float>(sign | 0x7f800000U | quiet | (fraction << 13));
  }
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  }
  if (fraction == 0) return std::bit_cast<float>(sign);
  // Subnormal: fraction * 2^-24 is a normal F32; its leading one moves to the hidden place.
  const uint32_t shift = static_cast<uint32_t>(std::countl_zero(fraction)) - 21;
  fraction = (fraction << shift) & 0x3ffU;
  return std::bit_cast<float>(sign | ((113 - shift) << 23) | (fraction << 13));
}

}  // namespace picchio
