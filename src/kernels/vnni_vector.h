// The quantised products of AVX2 with VPDPBUSD: unsigned bytes times signed bytes, four products
// added to a 32-bit lane.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace picchio {

// Base is the vector class without it. Instruction::Run(sum, unsigned bytes, signed bytes) is the
// instruction in the file's own encoding.
template <typename Base, typename Instruction>
struct VnniVector : Base {
  using Lanes = typename Base::Lanes;

  static __m256i AddProducts(__m256i sum, __m256i a, __m256i b) {
    return Instruction::Run(sum, a, b);
  }

  static Lanes DotInt4(const typename Base::Int4Group& w, const int8_t* codes,
                       const int32_t* offsets) {
    __m256i sum = Instruction::Run(Base::Load32(offsets), w.even, Base::Load32(codes));
    sum = Instruction::Run(sum, w.odd, Base::Load32(codes + 32));
    return _mm256_cvtepi32_ps(sum);
  }

  struct Int8Group {
    __m256i first, second;  // w + 128
  };
  static Int8Group LoadInt8Group(const int8_t* a, const int8_t* /*b*/) {
    const __m256i sign = _mm256_set1_epi8(-128);
    return {_mm256_xor_si256(Base::Load32(a), sign), _mm256_xor_si256(Base::Load32(a + 32), sign)};
  }
  static Lanes DotInt8(const Int8Group& w, const int8_t* codes, const int32_t* offsets) {
    __m256i sum = Instruction::Run(Base::Load32(offsets), w.first, Base::Load32(codes));
    sum = Instruction::Run(sum, w.second, Base::Load32(codes + 32));
    return _mm256_cvtepi32_ps(sum);
  }

  static Lanes DotMxfp4(const typename Base::Mxfp4Block& w, const int8_t* codes,
                        const int32_t* offsets) {
    return _mm256_cvtepi32_ps(
        Instruction::Run(Base::Load32(offsets), w.weights, Base::Load32(codes)));
  }
};

}  // namespace picchio

#endif
