// Binary32 as bits, and the small formats that widen to it exactly.
//
// Always inlined: the files of the instruction sets include this header, and a copy compiled with
// their flags must not become the one that the rest of the program links to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace picchio {

[[gnu::always_inline]] inline uint32_t BitsOf(float value) {
  return __builtin_bit_cast(uint32_t, value);
}
[[gnu::always_inline]] inline float FloatOf(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

[[gnu::always_inline]] inline float WidenBf16(uint16_t bits) {
  return FloatOf(static_cast<uint32_t>(bits) << 16);
}

// Twice the value of an E2M1 code, an integer (OCP Microscaling Formats 1.0, table 5; 8 is -0).
inline constexpr int8_t kTwiceE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(e - 128), half the value of the E8M0 byte e: what multiplies twice the E2M1 value. Exact; e of
// 0 and 1 give denormals. 255 is NaN, and stays one should a reader let it through.
[[gnu::always_inline]] inline float HalfE8m0(uint8_t e) {
  if (e == 255) return FloatOf(0x7fc00000);
  return FloatOf(e >= 2 ? (e - uint32_t{1}) << 23 : uint32_t{0x00200000} << e);
}

}  // namespace picchio
