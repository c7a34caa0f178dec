// The weights of one row, sixteen at a time, as floats: what Dot16 is taken with.
//
// Each class has kBytes, those of sixteen weights, At(i), the weights i..i+15 for a multiple of 16,
// Tail(i, count) for fewer than 16 that end the row, with unspecified weights behind them, and
// Finish(sum), the row's result. V is a vector class (avx2_vector.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/float_bits.h"
#include "kernels/matrix.h"

namespace picchio::vector {

// `count` elements of `p`, then zeros. Rows may end where their memory ends, so that a whole vector
// must not be loaded there. Inlined even without optimisation: unlike the templates over V it would
// be one function for all instruction sets.
template <typename T, size_t kSize>
struct Padded {
  [[gnu::always_inline]] Padded(const T* p, size_t count) {
    __builtin_memcpy(values, p, count * sizeof(T));
  }
  alignas(64) T values[kSize] = {};
};

template <typename V>
struct Bf16Row {
  static constexpr size_t kBytes = 32;
  Bf16Row(const Bf16Matrix& w, size_t r) : row(w.data + r * w.cols) {}
  typename V::F At(size_t i) const { return V::LoadBf16(row + i); }
  typename V::F Tail(size_t i, size_t count) const {
    return V::LoadBf16(Padded<uint16_t, 16>(row + i, count).values);
  }
  float Finish(float sum) const { return sum; }

  const uint16_t* row;
};

template <typename V>
struct F32Row {
  static constexpr size_t kBytes = 64;
  F32Row(const F32Matrix& w, size_t r) : row(w.data + r * w.cols) {}
  typename V::F At(size_t i) const { return V::Load(row + i); }
  typename V::F Tail(size_t i, size_t count) const {
    return V::Load(Padded<float, 16>(row + i, count).values);
  }
  float Finish(float sum) const { return sum; }

  const float* row;
};

template <typename V>
struct Int8Row {
  static constexpr size_t kBytes = 16;
  Int8Row(const Int8Matrix& w, size_t r) : row(w.codes + r * w.cols), scale(w.scales[r]) {}
  typename V::F At(size_t i) const { return V::LoadInt8(row + i); }
  typename V::F Tail(size_t i, size_t count) const {
    return V::LoadInt8(Padded<int8_t, 16>(row + i, count).values);
  }
  float Finish(float sum) const { return sum * scale; }

  const int8_t* row;
  float scale;
};

template <typename V>
struct Int4Row {
  static constexpr size_t kBytes = 8;
  Int4Row(const Int4Matrix& w, size_t r)
      : row(w.codes + r * (w.cols / 2)), scales(w.scales + r * ((w.cols + 63) / 64)) {}
  typename V::F At(size_t i) const {
    return V::Mul(V::LoadInt4(row + i / 2), V::Set(scales[i / 64]));
  }
  typename V::F Tail(size_t i, size_t count) const {
    const Padded<uint8_t, 8> padded(row + i / 2, count / 2);
    return V::Mul(V::LoadInt4(padded.values), V::Set(scales[i / 64]));
  }
  float Finish(float sum) const { return sum; }

  const uint8_t* row;
  const float* scales;
};

template <typename V>
struct Mxfp4Row {
  static constexpr size_t kBytes = 8;
  Mxfp4Row(const Mxfp4Matrix& w, size_t r)
      : row(w.blocks + r * (w.cols / 2)), exponents(w.exponents + r * (w.cols / 32)) {}
  typename V::F At(size_t i) const {
    return V::Mul(V::LoadTwiceE2m1(row + i / 2), V::Set(HalfE8m0(exponents[i / 32])));
  }
  // Rows are whole blocks.
  typename V::F Tail(size_t /*i*/, size_t /*count*/) const { return V::Set(0); }
  float Finish(float sum) const { return sum; }

  const uint8_t* row;
  const uint8_t* exponents;
};

}  // namespace picchio::vector
