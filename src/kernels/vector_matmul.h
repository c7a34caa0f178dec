// The products over a vector class V (avx2_vector.h): in blocks of a few rows of weights by a few
// rows of activations, so that each weight is loaded and unpacked once for all rows of a block and
// several chains of dependent additions run side by side. Every result has accumulators of its own,
// so blocking changes no bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/float_bits.h"
#include "kernels/matrix.h"
#include "kernels/quantized_rows.h"
#include "kernels/vector_weights.h"

namespace picchio::vector {

// Calls block.template Run<R, T>(r, t) so that every pair of a row r of `rows` and a row t below
// `num_x` is covered once, the rows of weights in the outer loop. Blocks of four activation rows
// have kRows rows of weights, single ones have four: enough chains for one row's speed.
template <size_t kRows, typename Block>
void ForBlocks(RowRange rows, size_t num_x, const Block& block) {
  size_t r = rows.begin;
  for (; r + 4 <= rows.end; r += 4) {
    size_t t = 0;
    for (; t + 4 <= num_x; t += 4) {
      for (size_t part = 0; part < 4; part += kRows) block.template Run<kRows, 4>(r + part, t);
    }
    for (; t < num_x; ++t) block.template Run<4, 1>(r, t);
  }
  for (; r < rows.end; ++r) {
    size_t t = 0;
    for (; t + 4 <= num_x; t += 4) block.template Run<1, 4>(r, t);
    for (; t < num_x; ++t) block.template Run<1, 1>(r, t);
  }
}

// --- Dot16 ---

template <typename V, template <typename> typename Row, typename Matrix>
struct DotBlock {
  template <size_t R, size_t T>
  void Run(size_t r0, size_t t0) const {
    using F = typename V::F;
    const size_t cols = w.cols;
    F acc[R][T];
#pragma GCC unroll 4
    for (size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (size_t t = 0; t < T; ++t) acc[r][t] = V::Set(0);
    }
    const float* x0 = x.data + t0 * x.stride;
    size_t i = 0;
    for (; i + 16 <= cols; i += 16) {
      F activations[T];
#pragma GCC unroll 4
      for (size_t t = 0; t < T; ++t) activations[t] = V::Load(x0 + t * x.stride + i);
#pragma GCC unroll 4
      for (size_t r = 0; r < R; ++r) {
        const F weights = Row<V>(w, r0 + r).At(i);
#pragma GCC unroll 4
        for (size_t t = 0; t < T; ++t) acc[r][t] = V::Fma(weights, activations[t], acc[r][t]);
      }
    }
    const size_t rest = cols - i;
    // Lanes without an element keep what they have: adding a zero to them would turn -0 to +0.
    const typename V::Mask mask = V::FirstLanes(rest);
#pragma GCC unroll 4
    for (size_t r = 0; r < R; ++r) {
      const Row<V> row(w, r0 + r);
#pragma GCC unroll 4
      for (size_t t = 0; t < T; ++t) {
        if (rest != 0) {
          const F tail = V::Load(Padded<float, 16>(x0 + t * x.stride + i, rest).values);
          acc[r][t] = V::Select(mask, V::Fma(row.Tail(i, rest), tail, acc[r][t]), acc[r][t]);
        }
        y.data[(t0 + t) * y.stride + r0 + r] = row.Finish(V::Fold(acc[r][t]));
      }
    }
  }

  const Matrix& w;
  F32Rows x;
  F32Output y;
};

template <typename V, template <typename> typename Row, typename Matrix>
void Matmul(const Matrix& w, RowRange rows, F32Rows x, F32Output y) {
  ForBlocks<V::kDotRows>(rows, x.num_rows, DotBlock<V, Row, Matrix>{w, x, y});
}

// --- Quantised products ---
//
// A format of weights over V: the bytes and the lanes of one group, and the factors that make its
// sums values. Load(w, r, g, whole) may read a whole group only where `whole`.

template <typename V>
struct Int4Format {
  using Matrix = Int4Matrix;
  using Group = typename V::Int4Group;
  static constexpr size_t kGroup = 64;

  static Group Load(const Matrix& w, size_t r, size_t g, bool whole) {
    const uint8_t* p = w.codes + r * (w.cols / 2) + g * 32;
    if (whole) return V::LoadInt4Group(p);
    return V::LoadInt4Group(Padded<uint8_t, 32>(p, w.cols % kGroup / 2).values);
  }
  static auto Dot(const Group& group, const int8_t* codes, const int32_t* offsets) {
    return V::DotInt4(group, codes, offsets);
  }
  static float Scale(const Matrix& w, size_t r, size_t g, float activation_scale) {
    return w.scales[r * ((w.cols + 63) / 64) + g] * activation_scale;
  }
  static float Finish(const Matrix& /*w*/, size_t /*r*/, float sum) { return sum; }
};

template <typename V>
struct Int8Format {
  using Matrix = Int8Matrix;
  using Group = typename V::Int8Group;
  static constexpr size_t kGroup = 64;

  static Group Load(const Matrix& w, size_t r, size_t g, bool whole) {
    const int8_t* p = w.codes + r * w.cols + g * 64;
    if (whole) return V::LoadInt8Group(p);
    return V::LoadInt8Group(Padded<int8_t, 64>(p, w.cols % kGroup).values);
  }
  static auto Dot(const Group& group, const int8_t* codes, const int32_t* offsets) {
    return V::DotInt8(group, codes, offsets);
  }
  static float Scale(const Matrix& /*w*/, size_t /*r*/, size_t /*g*/, float activation_scale) {
    return activation_scale;
  }
  static float Finish(const Matrix& w, size_t r, float sum) { return sum * w.scales[r]; }
};

template <typename V>
struct Mxfp4Format {
  using Matrix = Mxfp4Matrix;
  using Group = typename V::Mxfp4Block;
  static constexpr size_t kGroup = 32;

  static Group Load(const Matrix& w, size_t r, size_t g, bool /*whole*/) {
    return V::LoadMxfp4Block(w.blocks + r * (w.cols / 2) + g * 16);
  }
  static auto Dot(const Group& group, const int8_t* codes, const int32_t* offsets) {
    return V::DotMxfp4(group, codes, offsets);
  }
  static float Scale(const Matrix& w, size_t r, size_t g, float activation_scale) {
    return HalfE8m0(w.exponents[r * (w.cols / 32) + g]) * activation_scale;
  }
  static float Finish(const Matrix& /*w*/, size_t /*r*/, float sum) { return sum; }
};

template <typename V, typename Format>
struct QuantizedBlock {
  using Lanes = typename V::Lanes;

  template <size_t R, size_t T>
  void Run(size_t r0, size_t t0) const {
    Lanes acc[R][T];
#pragma GCC unroll 4
    for (size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (size_t t = 0; t < T; ++t) acc[r][t] = V::ZeroLanes();
    }
    const size_t num_whole = w.cols / Format::kGroup;
    for (size_t g = 0; g < num_whole; ++g) AddGroup<R, T>(r0, t0, g, true, acc);
    if (num_whole < x.num_groups()) AddGroup<R, T>(r0, t0, num_whole, false, acc);
#pragma GCC unroll 4
    for (size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (size_t t = 0; t < T; ++t) {
        y.data[(t0 + t) * y.stride + r0 + r] = Format::Finish(w, r0 + r, V::Tree(acc[r][t]));
      }
    }
  }

  template <size_t R, size_t T>
  [[gnu::always_inline]] void AddGroup(size_t r0, size_t t0, size_t g, bool whole,
                                       Lanes (&acc)[R][T]) const {
#pragma GCC unroll 4
    for (size_t r = 0; r < R; ++r) {
      const typename Format::Group group = Format::Load(w, r0 + r, g, whole);
#pragma GCC unroll 4
      for (size_t t = 0; t < T; ++t) {
        const Lanes p =
            Format::Dot(group, x.codes(t0 + t) + g * Format::kGroup, x.offsets(t0 + t) + g * 8);
        const float scale = Format::Scale(w, r0 + r, g, x.scales(t0 + t)[g]);
        acc[r][t] = V::FmaLanes(p, scale, acc[r][t]);
      }
    }
  }

  const typename Format::Matrix& w;
  const QuantizedRows& x;
  F32Output y;
};

template <typename V, template <typename> typename Format>
void MatmulQuantized(const typename Format<V>::Matrix& w, RowRange rows, const QuantizedRows& x,
                     F32Output y) {
  ForBlocks<V::kProductRows>(rows, x.num_rows(), QuantizedBlock<V, Format<V>>{w, x, y});
}

}  // namespace picchio::vector
