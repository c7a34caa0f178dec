// Sixteen floats, or the eight lanes of a quantised product of two rows of weights, in one AVX-512
// register, with VNNI: unsigned bytes times signed bytes, four products added to a 32-bit lane.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/avx2_vector.h"

namespace picchio {

template <typename Unit>
struct Avx512Vector : Avx2Vector<Unit> {
  using Base = Avx2Vector<Unit>;
  using F = __m512;
  using I = __m512i;
  using Mask = __mmask16;
  static constexpr size_t kDotRows = 4;
  static constexpr size_t kProductRows = 4;

  static F Set(float a) { return _mm512_set1_ps(a); }
  static F Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, F a) { _mm512_storeu_ps(p, a); }
  static F Add(F a, F b) { return _mm512_add_ps(a, b); }
  static F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F Div(F a, F b) { return _mm512_div_ps(a, b); }
  static F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F Negate(F a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0F)); }
  static F Abs(F a) { return _mm512_abs_ps(a); }

  static Mask Less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static Mask FirstLanes(size_t n) { return static_cast<Mask>((1U << n) - 1); }
  static F Select(Mask mask, F a, F b) { return _mm512_mask_blend_ps(mask, b, a); }

  static I SetI(int32_t a) { return _mm512_set1_epi32(a); }
  static I BitsOf(F a) { return _mm512_castps_si512(a); }
  static F FloatsOf(I a) { return _mm512_castsi512_ps(a); }
  static I AddI(I a, I b) { return _mm512_add_epi32(a, b); }
  static I SubI(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I MaxI(I a, I b) { return _mm512_max_epi32(a, b); }
  template <int kBits>
  static I ShiftLeft(I a) {
    return _mm512_slli_epi32(a, kBits);
  }
  static I Halve(I a) { return _mm512_srai_epi32(a, 1); }

  static float Fold(F a) {
    return Base::Tree(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
  }
  static int32_t LargestI(I a) {
    return Base::LargestI({_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1)});
  }
  static float First(F a) { return _mm512_cvtss_f32(a); }

  static void LoadPairs(const float* p, F& even, F& odd) {
    const I evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const I odds = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    const F a = Load(p);
    const F b = Load(p + 16);
    even = _mm512_permutex2var_ps(a, evens, b);
    odd = _mm512_permutex2var_ps(a, odds, b);
  }

  static F LoadBf16(const uint16_t* p) {
    return FloatsOf(_mm512_slli_epi32(_mm512_cvtepu16_epi32(Base::Load32(p)), 16));
  }
  static F LoadInt8(const int8_t* p) { return FloatsFromInt8(Base::LoadBytes(p)); }
  static F LoadInt4(const uint8_t* p) {
    return FloatsFromInt8(_mm_sub_epi8(Base::LoadNibbles(p), _mm_set1_epi8(8)));
  }
  static F LoadTwiceE2m1(const uint8_t* p) {
    return FloatsFromInt8(_mm_shuffle_epi8(Base::LoadBytes(kTwiceE2m1), Base::LoadNibbles(p)));
  }

  static F LoadHalfE8m0(const uint8_t* p) {
    const I e = _mm512_cvtepu8_epi32(Base::LoadBytes(p));
    const I normal = _mm512_slli_epi32(_mm512_sub_epi32(e, SetI(1)), 23);
    const I number =
        _mm512_mask_sllv_epi32(normal, _mm512_cmplt_epi32_mask(e, SetI(2)), SetI(0x00200000), e);
    return FloatsOf(
        _mm512_mask_blend_epi32(_mm512_cmpeq_epi32_mask(e, SetI(255)), number, SetI(0x7fc00000)));
  }

  using Bytes = __m512i;
  static constexpr size_t kByteChains = 10;
  static constexpr size_t kFloatChains = 10;
  static Bytes SetBytes(int8_t a) { return _mm512_set1_epi8(a); }
  static Bytes AddProducts(Bytes sum, Bytes a, Bytes b) { return _mm512_dpbusd_epi32(sum, a, b); }
  static void Hide(Bytes& a) { asm volatile("" : "+v"(a)); }

  // --- Eight lanes of a quantised product of two rows ---

  using Lanes = __m512;
  static constexpr size_t kLaneRows = 2;

  static Lanes ZeroLanes() { return _mm512_setzero_ps(); }
  static Lanes FmaLanes(Lanes p, const float* a, const float* b, Lanes acc) {
    const __m512 first = _mm512_set1_ps(*a);
    return _mm512_fmadd_ps(
        p, a == b ? first : _mm512_mask_broadcastss_ps(first, 0xff00, _mm_load_ss(b)), acc);
  }
  static void Trees(Lanes a, float* sums) {
    sums[0] = Base::Tree(_mm512_castps512_ps256(a));
    sums[1] = Base::Tree(_mm512_extractf32x8_ps(a, 1));
  }

  struct Int4Group {
    __m512i even, odd;  // 0..15
  };
  static Int4Group LoadInt4Group(const uint8_t* a, const uint8_t* b) {
    const __m512i bytes = Both(Base::Load32(a), Base::Load32(b));
    const __m512i mask = _mm512_set1_epi8(15);
    return {_mm512_and_si512(bytes, mask), _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask)};
  }
  static Lanes DotInt4(const Int4Group& w, const int8_t* codes, const int32_t* offsets) {
    const __m512i sum = _mm512_dpbusd_epi32(Twice(offsets), w.even, Twice(codes));
    return _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(sum, w.odd, Twice(codes + 32)));
  }

  struct Int8Group {
    __m512i first, second;  // w + 128
  };
  static Int8Group LoadInt8Group(const int8_t* a, const int8_t* b) {
    const __m512i sign = _mm512_set1_epi8(-128);
    return {_mm512_xor_si512(Both(Base::Load32(a), Base::Load32(b)), sign),
            _mm512_xor_si512(Both(Base::Load32(a + 32), Base::Load32(b + 32)), sign)};
  }
  static Lanes DotInt8(const Int8Group& w, const int8_t* codes, const int32_t* offsets) {
    const __m512i sum = _mm512_dpbusd_epi32(Twice(offsets), w.first, Twice(codes));
    return _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(sum, w.second, Twice(codes + 32)));
  }

  struct Mxfp4Block {
    __m512i weights;  // Twice the value + 12: 0..24; a row's even elements, then its odd ones.
  };
  static Mxfp4Block LoadMxfp4Block(const uint8_t* a, const uint8_t* b) {
    const __m512i first = _mm512_broadcast_i32x4(Base::LoadBytes(a));
    const __m512i both = _mm512_mask_broadcast_i32x4(first, 0xff00, Base::LoadBytes(b));
    const __m512i shifts = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
    const __m512i codes = _mm512_and_si512(_mm512_srlv_epi64(both, shifts), _mm512_set1_epi8(15));
    const __m128i values = _mm_add_epi8(Base::LoadBytes(kTwiceE2m1), _mm_set1_epi8(12));
    return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), codes)};
  }
  static Lanes DotMxfp4(const Mxfp4Block& w, const int8_t* codes, const int32_t* offsets) {
    return _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(Twice(offsets), w.weights, Twice(codes)));
  }

  static void StoreRounded(int8_t* p, F a) {
    Base::StoreBytes(p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a)));
  }

 private:
  static __m512i Both(__m256i a, __m256i b) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
  }
  static __m512i Twice(const void* p) { return _mm512_broadcast_i64x4(Base::Load32(p)); }
  static F FloatsFromInt8(__m128i bytes) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)); }
};

}  // namespace picchio

#endif
