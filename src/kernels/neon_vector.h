// Sixteen floats and eight lanes of a quantised product in Advanced SIMD registers, with the signed
// dot product of Armv8.2. What each member does is written at its like in avx2_vector.h.
#pragma once

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/float_bits.h"

namespace picchio {

template <typename Unit>
struct NeonVector {
  struct F {
    float32x4_t v[4];
  };
  struct I {
    int32x4_t v[4];
  };
  struct Mask {
    uint32x4_t v[4];
  };
  static constexpr size_t kDotRows =
      1;  // Four registers to a vector: 16 accumulators for four rows.
  static constexpr size_t kProductRows = 2;

  static F Set(float a) {
    return Map([a](int) { return vdupq_n_f32(a); });
  }
  static F Load(const float* p) {
    return Map([p](int i) { return vld1q_f32(p + 4 * i); });
  }
  static void Store(float* p, const F& a) {
    for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]);
  }
  static F Add(const F& a, const F& b) {
    return Map([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
  }
  static F Sub(const F& a, const F& b) {
    return Map([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
  }
  static F Mul(const F& a, const F& b) {
    return Map([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
  }
  static F Div(const F& a, const F& b) {
    return Map([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
  }
  static F Fma(const F& a, const F& b, const F& c) {
    return Map([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
  }
  static F Negate(const F& a) {
    return Map([&](int i) { return vnegq_f32(a.v[i]); });
  }
  static F Abs(const F& a) {
    return Map([&](int i) { return vabsq_f32(a.v[i]); });
  }

  static Mask Less(const F& a, const F& b) {
    Mask mask;
    for (int i = 0; i < 4; ++i) mask.v[i] = vcltq_f32(a.v[i], b.v[i]);
    return mask;
  }
  static Mask FirstLanes(size_t n) {
    constexpr uint32_t kIndex[4] = {0, 1, 2, 3};
    Mask mask;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32x4_t index = vaddq_u32(vld1q_u32(kIndex), vdupq_n_u32(4 * i));
      mask.v[i] = vcltq_u32(index, vdupq_n_u32(static_cast<uint32_t>(n)));
    }
    return mask;
  }
  static F Select(const Mask& mask, const F& a, const F& b) {
    return Map([&](int i) { return vbslq_f32(mask.v[i], a.v[i], b.v[i]); });
  }

  static I SetI(int32_t a) {
    return MapI([a](int) { return vdupq_n_s32(a); });
  }
  static I BitsOf(const F& a) {
    return MapI([&](int i) { return vreinterpretq_s32_f32(a.v[i]); });
  }
  static F FloatsOf(const I& a) {
    return Map([&](int i) { return vreinterpretq_f32_s32(a.v[i]); });
  }
  static I AddI(const I& a, const I& b) {
    return MapI([&](int i) { return vaddq_s32(a.v[i], b.v[i]); });
  }
  static I SubI(const I& a, const I& b) {
    return MapI([&](int i) { return vsubq_s32(a.v[i], b.v[i]); });
  }
  static I MaxI(const I& a, const I& b) {
    return MapI([&](int i) { return vmaxq_s32(a.v[i], b.v[i]); });
  }
  template <int kBits>
  static I ShiftLeft(const I& a) {
    return MapI([&](int i) { return vshlq_n_s32(a.v[i], kBits); });
  }
  static I Halve(const I& a) {
    return MapI([&](int i) { return vshrq_n_s32(a.v[i], 1); });
  }

  static float Fold(const F& a) {
    return Tree({vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3])});
  }
  static int32_t LargestI(const I& a) {
    return vmaxvq_s32(vmaxq_s32(vmaxq_s32(a.v[0], a.v[1]), vmaxq_s32(a.v[2], a.v[3])));
  }
  static float First(const F& a) { return vgetq_lane_f32(a.v[0], 0); }

  static void LoadPairs(const float* p, F& even, F& odd) {
    for (int i = 0; i < 4; ++i) {
      const float32x4x2_t pairs = vld2q_f32(p + 8 * i);
      even.v[i] = pairs.val[0];
      odd.v[i] = pairs.val[1];
    }
  }

  static F LoadBf16(const uint16_t* p) {
    return Map([p](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)); });
  }
  static F LoadInt8(const int8_t* p) { return FloatsFromInt8(vld1q_s8(p)); }
  static F LoadInt4(const uint8_t* p) {
    return FloatsFromInt8(vsubq_s8(vreinterpretq_s8_u8(LoadNibbles(p)), vdupq_n_s8(8)));
  }
  static F LoadTwiceE2m1(const uint8_t* p) {
    return FloatsFromInt8(vqtbl1q_s8(vld1q_s8(kTwiceE2m1), LoadNibbles(p)));
  }

  static void StoreRounded(int8_t* p, const F& a) {
    int16x4_t words[4];
    for (int i = 0; i < 4; ++i) words[i] = vqmovn_s32(vcvtnq_s32_f32(a.v[i]));
    vst1q_s8(p, vcombine_s8(vqmovn_s16(vcombine_s16(words[0], words[1])),
                            vqmovn_s16(vcombine_s16(words[2], words[3]))));
  }
  static void SplitBytes(const int8_t* p, int8_t* even, int8_t* odd) {
    const int8x16x2_t pairs = vld2q_s8(p);
    vst1q_s8(even, pairs.val[0]);
    vst1q_s8(odd, pairs.val[1]);
  }
  static void StoreFourSums(const int8_t* p, const int8_t* q, int32_t factor, int32_t* out) {
    const int8x16_t ones = vdupq_n_s8(1);
    for (int i = 0; i < 2; ++i) {
      int32x4_t sums = vdotq_s32(vdupq_n_s32(0), ones, vld1q_s8(p + 16 * i));
      if (q != nullptr) sums = vdotq_s32(sums, ones, vld1q_s8(q + 16 * i));
      vst1q_s32(out + 4 * i, vmulq_n_s32(sums, factor));
    }
  }

  static F LoadHalfE8m0(const uint8_t* p) {
    return Map([p](int i) {
      float scales[4];
      for (int j = 0; j < 4; ++j) scales[j] = HalfE8m0(p[4 * i + j]);
      return vld1q_f32(scales);
    });
  }

  using Bytes = int8x16_t;
  static constexpr size_t kByteChains = 12;
  static constexpr size_t kFloatChains = 5;
  static Bytes SetBytes(int8_t a) { return vdupq_n_s8(a); }
  static Bytes AddProducts(Bytes sum, Bytes a, Bytes b) {
    return vreinterpretq_s8_s32(vdotq_s32(vreinterpretq_s32_s8(sum), a, b));
  }
  static void Hide(Bytes& a) { asm volatile("" : "+w"(a)); }

  struct Lanes {
    float32x4_t low, high;
  };

  static constexpr size_t kLaneRows = 1;

  static Lanes ZeroLanes() { return {vdupq_n_f32(0), vdupq_n_f32(0)}; }
  static Lanes FmaLanes(const Lanes& p, const float* a, const float* /*b*/, const Lanes& acc) {
    return {vfmaq_n_f32(acc.low, p.low, *a), vfmaq_n_f32(acc.high, p.high, *a)};
  }
  static void Trees(const Lanes& a, float* sums) { sums[0] = Tree(a); }
  static float Tree(const Lanes& a) {
    const float32x4_t t = vaddq_f32(a.low, a.high);
    const float32x2_t u = vadd_f32(vget_low_f32(t), vget_high_f32(t));
    return vget_lane_f32(u, 0) + vget_lane_f32(u, 1);
  }

  struct Int4Group {
    int8x16_t even[2], odd[2];  // 0..15
  };
  static Int4Group LoadInt4Group(const uint8_t* a, const uint8_t* /*b*/) {
    Int4Group group;
    for (int i = 0; i < 2; ++i) {
      const uint8x16_t bytes = vld1q_u8(a + 16 * i);
      group.even[i] = vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));
      group.odd[i] = vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
    }
    return group;
  }
  static Lanes DotInt4(const Int4Group& w, const int8_t* codes, const int32_t* offsets) {
    int32x4_t sums[2];
    for (int i = 0; i < 2; ++i) {
      sums[i] = vdotq_s32(vld1q_s32(offsets + 4 * i), w.even[i], vld1q_s8(codes + 16 * i));
      sums[i] = vdotq_s32(sums[i], w.odd[i], vld1q_s8(codes + 32 + 16 * i));
    }
    return {vcvtq_f32_s32(sums[0]), vcvtq_f32_s32(sums[1])};
  }

  struct Int8Group {
    int8x16_t v[4];
  };
  static Int8Group LoadInt8Group(const int8_t* a, const int8_t* /*b*/) {
    return {{vld1q_s8(a), vld1q_s8(a + 16), vld1q_s8(a + 32), vld1q_s8(a + 48)}};
  }
  static Lanes DotInt8(const Int8Group& w, const int8_t* codes, const int32_t* /*offsets*/) {
    int32x4_t sums[2];
    for (int i = 0; i < 2; ++i) {
      sums[i] = vdotq_s32(vdupq_n_s32(0), w.v[i], vld1q_s8(codes + 16 * i));
      sums[i] = vdotq_s32(sums[i], w.v[i + 2], vld1q_s8(codes + 32 + 16 * i));
    }
    return {vcvtq_f32_s32(sums[0]), vcvtq_f32_s32(sums[1])};
  }

  struct Mxfp4Block {
    int8x16_t even, odd;  // Twice the values.
  };
  static Mxfp4Block LoadMxfp4Block(const uint8_t* a, const uint8_t* /*b*/) {
    const uint8x16_t bytes = vld1q_u8(a);
    const int8x16_t values = vld1q_s8(kTwiceE2m1);
    return {vqtbl1q_s8(values, vandq_u8(bytes, vdupq_n_u8(15))),
            vqtbl1q_s8(values, vshrq_n_u8(bytes, 4))};
  }
  static Lanes DotMxfp4(const Mxfp4Block& w, const int8_t* codes, const int32_t* /*offsets*/) {
    const int32x4_t zero = vdupq_n_s32(0);
    return {vcvtq_f32_s32(vdotq_s32(zero, w.even, vld1q_s8(codes))),
            vcvtq_f32_s32(vdotq_s32(zero, w.odd, vld1q_s8(codes + 16)))};
  }

 private:
  template <typename Register>
  static F Map(Register reg) {
    return {{reg(0), reg(1), reg(2), reg(3)}};
  }
  template <typename Register>
  static I MapI(Register reg) {
    return {{reg(0), reg(1), reg(2), reg(3)}};
  }
  static uint8x16_t LoadNibbles(const uint8_t* p) {
    const uint8x8_t bytes = vld1_u8(p);
    const uint8x8_t low = vand_u8(bytes, vdup_n_u8(15));
    const uint8x8_t high = vshr_n_u8(bytes, 4);
    return vcombine_u8(vzip1_u8(low, high), vzip2_u8(low, high));
  }
  static F FloatsFromInt8(int8x16_t bytes) {
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes));
    const int16x8_t high = vmovl_s8(vget_high_s8(bytes));
    return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
             vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
             vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
             vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
  }
};

}  // namespace picchio

#endif
