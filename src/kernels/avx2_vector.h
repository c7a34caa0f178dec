// Sixteen floats and eight lanes of a quantised product in AVX2 and FMA registers. The templates of
// vector_*.h are written over such a class; what its members mean is written here for all of them.
//
// `Unit` is a type of the file that instantiates this, from its unnamed namespace: everything made
// here then stays in that file, and no copy compiled with its flags can be linked into others.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/float_bits.h"

namespace picchio {

template <typename Unit>
struct Avx2Vector {
  // --- Sixteen floats, lane = index mod 16 ---

  struct F {
    __m256 low, high;
  };
  struct I {
    __m256i low, high;
  };
  using Mask = I;
  // Rows of weights in a block with four rows of activations, as many as the registers hold: of
  // Dot16, and of the quantised products.
  static constexpr size_t kDotRows = 1;
  static constexpr size_t kProductRows = 2;

  static F Set(float a) { return {_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
  static F Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static void Store(float* p, F a) {
    _mm256_storeu_ps(p, a.low);
    _mm256_storeu_ps(p + 8, a.high);
  }
  static F Add(F a, F b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
  static F Sub(F a, F b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
  static F Mul(F a, F b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
  static F Div(F a, F b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
  static F Fma(F a, F b, F c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static F Negate(F a) { return FloatsOf(Xor(BitsOf(a), SetI(INT32_MIN))); }
  static F Abs(F a) { return FloatsOf(And(BitsOf(a), SetI(INT32_MAX))); }

  static Mask Less(F a, F b) {
    return {_mm256_castps_si256(_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
            _mm256_castps_si256(_mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
  }
  static Mask FirstLanes(size_t n) {
    const __m256i count = _mm256_set1_epi32(static_cast<int>(n));
    return {_mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
            _mm256_cmpgt_epi32(count, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15))};
  }
  // mask ? a : b
  static F Select(Mask mask, F a, F b) {
    return {_mm256_blendv_ps(b.low, a.low, _mm256_castsi256_ps(mask.low)),
            _mm256_blendv_ps(b.high, a.high, _mm256_castsi256_ps(mask.high))};
  }

  static I SetI(int32_t a) { return {_mm256_set1_epi32(a), _mm256_set1_epi32(a)}; }
  static I BitsOf(F a) { return {_mm256_castps_si256(a.low), _mm256_castps_si256(a.high)}; }
  static F FloatsOf(I a) { return {_mm256_castsi256_ps(a.low), _mm256_castsi256_ps(a.high)}; }
  static I AddI(I a, I b) {
    return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
  }
  static I SubI(I a, I b) {
    return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
  }
  static I MaxI(I a, I b) {
    return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
  }
  template <int kBits>
  static I ShiftLeft(I a) {
    return {_mm256_slli_epi32(a.low, kBits), _mm256_slli_epi32(a.high, kBits)};
  }
  static I Halve(I a) { return {_mm256_srai_epi32(a.low, 1), _mm256_srai_epi32(a.high, 1)}; }

  // Lanes i and i + 8, i + 4, i + 2, i + 1.
  static float Fold(F a) { return Tree(_mm256_add_ps(a.low, a.high)); }
  static int32_t LargestI(I a) {
    const __m256i m = _mm256_max_epi32(a.low, a.high);
    __m128i n = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    n = _mm_max_epi32(n, _mm_shuffle_epi32(n, 0x4e));
    n = _mm_max_epi32(n, _mm_shuffle_epi32(n, 0xb1));
    return _mm_cvtsi128_si32(n);
  }
  static float First(F a) { return _mm256_cvtss_f32(a.low); }

  // Elements 0, 2, 4, ... and 1, 3, 5, ... of 32 floats.
  static void LoadPairs(const float* p, F& even, F& odd) {
    SplitPairs(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8), even.low, odd.low);
    SplitPairs(_mm256_loadu_ps(p + 16), _mm256_loadu_ps(p + 24), even.high, odd.high);
  }

  // --- Sixteen weights as floats, unscaled ---

  static F LoadBf16(const uint16_t* p) { return {WidenBf16(p), WidenBf16(p + 8)}; }
  static F LoadInt8(const int8_t* p) { return FloatsFromInt8(LoadBytes(p)); }
  // 8 bytes of nibbles w + 8.
  static F LoadInt4(const uint8_t* p) {
    return FloatsFromInt8(_mm_sub_epi8(LoadNibbles(p), _mm_set1_epi8(8)));
  }
  // 8 bytes of E2M1 codes; twice their values.
  static F LoadTwiceE2m1(const uint8_t* p) {
    return FloatsFromInt8(_mm_shuffle_epi8(LoadBytes(kTwiceE2m1), LoadNibbles(p)));
  }

  // Sixteen of HalfE8m0 (float_bits.h).
  static F LoadHalfE8m0(const uint8_t* p) {
    const __m128i bytes = LoadBytes(p);
    return {HalfE8m0s(_mm256_cvtepu8_epi32(bytes)),
            HalfE8m0s(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
  }

  // --- Products of bytes, as many as a register holds: the limit of the quantised products ---

  using Bytes = __m256i;
  // Chains of them, and of F, that the registers hold beside what is multiplied.
  static constexpr size_t kByteChains = 10;
  static constexpr size_t kFloatChains = 5;

  static Bytes SetBytes(int8_t a) { return _mm256_set1_epi8(a); }
  // Lane j of 32 bits: sum + the products of bytes 4j..4j+3, a unsigned.
  static Bytes AddProducts(Bytes sum, Bytes a, Bytes b) {
    return _mm256_add_epi32(sum,
                            _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
  }
  // Hides from the compiler what the value is.
  static void Hide(Bytes& a) { asm volatile("" : "+x"(a)); }

  // --- Quantising ---

  // The nearest integers, ties to even, as bytes; |a| <= 127.
  static void StoreRounded(int8_t* p, F a) {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high));
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    StoreBytes(
        p, _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
  }
  // Separates the even from the odd ones of 32 bytes.
  static void SplitBytes(const int8_t* p, int8_t* even, int8_t* odd) {
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    const __m128i a = _mm_shuffle_epi8(LoadBytes(p), order);
    const __m128i b = _mm_shuffle_epi8(LoadBytes(p + 16), order);
    StoreBytes(even, _mm_unpacklo_epi64(a, b));
    StoreBytes(odd, _mm_unpackhi_epi64(a, b));
  }
  // out[j] = factor * (sum of the four bytes at 4j of p, and of q unless it is null), j = 0..7.
  static void StoreFourSums(const int8_t* p, const int8_t* q, int32_t factor, int32_t* out) {
    const __m256i ones = _mm256_set1_epi8(1);
    __m256i pairs = _mm256_maddubs_epi16(ones, Load32(p));
    if (q != nullptr) pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(ones, Load32(q)));
    const __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                        _mm256_mullo_epi32(sums, _mm256_set1_epi32(factor)));
  }

  // --- Eight lanes of a quantised product, for each of the rows of weights in a register ---
  //
  // What takes a pointer `a` to something of the first row takes one `b` to that of the second: the
  // same where there is only one, and not looked at where registers hold one row.

  using Lanes = __m256;
  static constexpr size_t kLaneRows = 1;

  static Lanes ZeroLanes() { return _mm256_setzero_ps(); }
  // acc + p times each row's scale, fused.
  static Lanes FmaLanes(Lanes p, const float* a, const float* /*b*/, Lanes acc) {
    return _mm256_fmadd_ps(p, _mm256_set1_ps(*a), acc);
  }
  // The sums of the rows, one after the other.
  static void Trees(Lanes a, float* sums) { sums[0] = Tree(a); }
  // Lanes j and j + 4, then j + 2, then j + 1.
  static float Tree(Lanes a) {
    const __m128 t = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 u = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(u, _mm_movehdup_ps(u)));
  }

  struct Int4Group {
    __m256i even, odd;  // 0..15
  };
  static Int4Group LoadInt4Group(const uint8_t* a, const uint8_t* /*b*/) {
    const __m256i bytes = Load32(a);
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(bytes, mask), _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask)};
  }
  static Lanes DotInt4(const Int4Group& w, const int8_t* codes, const int32_t* offsets) {
    // At most 4 * 15 * 127 a word.
    const __m256i words = _mm256_add_epi16(_mm256_maddubs_epi16(w.even, Load32(codes)),
                                           _mm256_maddubs_epi16(w.odd, Load32(codes + 32)));
    return LanesOf(_mm256_madd_epi16(words, _mm256_set1_epi16(1)), offsets);
  }

  struct Int8Group {
    __m256i first, second;
  };
  static Int8Group LoadInt8Group(const int8_t* a, const int8_t* /*b*/) {
    return {Load32(a), Load32(a + 32)};
  }
  // Signs move from the weights to the activations: |w| * (q * sign(w)), at most 2 * 128 * 127 a
  // word, where w + 128 would overflow it. The offsets are not needed.
  static Lanes DotInt8(const Int8Group& w, const int8_t* codes, const int32_t* /*offsets*/) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i first =
        _mm256_maddubs_epi16(_mm256_abs_epi8(w.first), _mm256_sign_epi8(Load32(codes), w.first));
    const __m256i second = _mm256_maddubs_epi16(_mm256_abs_epi8(w.second),
                                                _mm256_sign_epi8(Load32(codes + 32), w.second));
    return _mm256_cvtepi32_ps(
        _mm256_add_epi32(_mm256_madd_epi16(first, ones), _mm256_madd_epi16(second, ones)));
  }

  struct Mxfp4Block {
    __m256i weights;  // Twice the value + 12: 0..24; the even elements, then the odd ones.
  };
  static Mxfp4Block LoadMxfp4Block(const uint8_t* a, const uint8_t* /*b*/) {
    const __m256i both = _mm256_broadcastsi128_si256(LoadBytes(a));
    const __m256i codes = _mm256_and_si256(_mm256_srlv_epi64(both, _mm256_setr_epi64x(0, 0, 4, 4)),
                                           _mm256_set1_epi8(15));
    const __m128i values = _mm_add_epi8(LoadBytes(kTwiceE2m1), _mm_set1_epi8(12));
    return {_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), codes)};
  }
  static Lanes DotMxfp4(const Mxfp4Block& w, const int8_t* codes, const int32_t* offsets) {
    const __m256i words = _mm256_maddubs_epi16(w.weights, Load32(codes));
    return LanesOf(_mm256_madd_epi16(words, _mm256_set1_epi16(1)), offsets);
  }

 protected:
  static __m128i LoadBytes(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
  }
  static void StoreBytes(void* p, __m128i a) { _mm_storeu_si128(static_cast<__m128i*>(p), a); }
  static __m256i Load32(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  // 16 nibbles in the order of their elements.
  static __m128i LoadNibbles(const uint8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    const __m128i mask = _mm_set1_epi8(15);
    return _mm_unpacklo_epi8(_mm_and_si128(bytes, mask),
                             _mm_and_si128(_mm_srli_epi16(bytes, 4), mask));
  }

 private:
  static I And(I a, I b) {
    return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)};
  }
  static I Xor(I a, I b) {
    return {_mm256_xor_si256(a.low, b.low), _mm256_xor_si256(a.high, b.high)};
  }
  static __m256 WidenBf16(const uint16_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(LoadBytes(p)), 16));
  }
  static F FloatsFromInt8(__m128i bytes) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  static __m256 HalfE8m0s(__m256i e) {
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i denormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i number =
        _mm256_blendv_epi8(denormal, normal, _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1)));
    return _mm256_castsi256_ps(_mm256_blendv_epi8(number, _mm256_set1_epi32(0x7fc00000),
                                                  _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255))));
  }
  static void SplitPairs(__m256 a, __m256 b, __m256& even, __m256& odd) {
    const __m256d e = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
    const __m256d o = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
    even = _mm256_castpd_ps(_mm256_permute4x64_pd(e, 0xd8));
    odd = _mm256_castpd_ps(_mm256_permute4x64_pd(o, 0xd8));
  }
  static Lanes LanesOf(__m256i sums, const int32_t* offsets) {
    return _mm256_cvtepi32_ps(_mm256_add_epi32(sums, Load32(offsets)));
  }
};

}  // namespace picchio

#endif
