// Four F32 lanes, for the quantisers: as fast as the baseline instruction set of the target allows
// (SSE2, NEON) and the same bits on every target, because each operation is one IEEE operation per
// lane. Private to this room; the kernels have their own files per instruction set.
#pragma once

#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace picchio::f32x4 {

// + - * / act lane by lane; [i] reads a lane.
using F32x4 = float __attribute__((vector_size(16)));

inline F32x4 Splat(float value) { return F32x4{value, value, value, value}; }

// 16 bytes from any address.
inline F32x4 Load(const float* from) {
  F32x4 value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

inline void Store(F32x4 value, float* to) { std::memcpy(to, &value, sizeof(value)); }

// `value`, not NaN, limited to [low, high].
inline F32x4 Clamp(F32x4 value, float low, float high) {
#if defined(__SSE2__)
  return (F32x4)_mm_max_ps(_mm_min_ps((__m128)value, _mm_set1_ps(high)), _mm_set1_ps(low));
#elif defined(__ARM_NEON)
  return (F32x4)vmaxq_f32(vminq_f32((float32x4_t)value, vdupq_n_f32(high)), vdupq_n_f32(low));
#else
  value = value < Splat(high) ? value : Splat(high);
  return value > Splat(low) ? value : Splat(low);
#endif
}

// Adding it to a value of magnitude below 2^22 leaves no room for a fraction: the sum is rounded to
// the nearest whole number, ties to even, and its low bits are that number.
inline constexpr float kRoundingMagic = 12582912.0F;  // 1.5 * 2^23

// Each lane, of magnitude below 2^22, rounded to the nearest whole number, ties to even.
inline F32x4 RoundNearest(F32x4 value) {
  return (value + Splat(kRoundingMagic)) - Splat(kRoundingMagic);
}

// (0 + 2) + (1 + 3).
inline float Sum(F32x4 value) { return (value[0] + value[2]) + (value[1] + value[3]); }

}  // namespace picchio::f32x4
