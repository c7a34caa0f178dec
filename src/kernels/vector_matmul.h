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

// Asks for what R rows behind this block's will be read as next: rows lie behind each other, so the
// memory sees one stream from front to back, which it serves fastest, where R rows that are read
// beside each other would be R streams.
template <size_t R, typename T>
[[gnu::always_inline]] inline void Prefetch(const T* row, size_t row_bytes, size_t step,
                                            size_t step_bytes) {
  const auto* next = reinterpret_cast<const char*>(row) + R * row_bytes + step * R * step_bytes;
#pragma GCC unroll 16
  for (size_t i = 0; i < R * step_bytes; i += 64) __builtin_prefetch(next + i);
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
      // Floats fill the cache's lines so fast that asking for them is only more work.
      if (T == 1 && Row<V>::kBytes < 64)
        Prefetch<R>(Row<V>(w, r0).row, cols * Row<V>::kBytes / 16, i / 16, Row<V>::kBytes);
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
// sums values. Load(w, r, next, g, whole) takes the group of row r and, where registers hold two,
// of row `next`, and may read a whole group only where `whole`.

template <typename V>
struct Int4Format {
  using Matrix = Int4Matrix;
  using Group = typename V::Int4Group;
  static constexpr size_t kGroup = 64;
  static constexpr size_t kGroupBytes = 32;
  static constexpr bool kScalesByGroup = true;
  static constexpr bool kMadeScales = false;

  static const uint8_t* Row(const Matrix& w, size_t r) { return w.codes + r * (w.cols / 2); }
  static Group Load(const Matrix& w, size_t r, size_t next, size_t g, bool whole) {
    const uint8_t* a = Row(w, r) + g * kGroupBytes;
    const uint8_t* b = Row(w, next) + g * kGroupBytes;
    if (whole) return V::LoadInt4Group(a, b);
    const size_t rest = w.cols % kGroup / 2;
    return V::LoadInt4Group(Padded<uint8_t, 32>(a, rest).values,
                            Padded<uint8_t, 32>(b, rest).values);
  }
  static auto Dot(const Group& group, const int8_t* codes, const int32_t* offsets) {
    return V::DotInt4(group, codes, offsets);
  }
  // The scales of groups g..g+15, for sixteen that are within the matrix, and of one.
  static const float* ScaleRow(const Matrix& w, size_t r) {
    return w.scales + r * ((w.cols + 63) / 64);
  }
  static bool SixteenWithin(const Matrix& w, size_t r, size_t g) {
    const size_t num_groups = (w.cols + 63) / 64;
    return r * num_groups + g + 16 <= w.rows * num_groups;
  }
  static typename V::F SixteenScales(const Matrix& w, size_t r, size_t g) {
    return V::Load(ScaleRow(w, r) + g);
  }
  static float Scale(const Matrix& w, size_t r, size_t g) { return ScaleRow(w, r)[g]; }
  static float Finish(const Matrix& /*w*/, size_t /*r*/, float sum) { return sum; }
};

template <typename V>
struct Int8Format {
  using Matrix = Int8Matrix;
  using Group = typename V::Int8Group;
  static constexpr size_t kGroup = 64;
  static constexpr size_t kGroupBytes = 64;
  static constexpr bool kScalesByGroup = false;
  static constexpr bool kMadeScales = false;

  static const int8_t* Row(const Matrix& w, size_t r) { return w.codes + r * w.cols; }
  static Group Load(const Matrix& w, size_t r, size_t next, size_t g, bool whole) {
    const int8_t* a = Row(w, r) + g * kGroupBytes;
    const int8_t* b = Row(w, next) + g * kGroupBytes;
    if (whole) return V::LoadInt8Group(a, b);
    const size_t rest = w.cols % kGroup;
    return V::LoadInt8Group(Padded<int8_t, 64>(a, rest).values, Padded<int8_t, 64>(b, rest).values);
  }
  static auto Dot(const Group& group, const int8_t* codes, const int32_t* offsets) {
    return V::DotInt8(group, codes, offsets);
  }
  static float Finish(const Matrix& w, size_t r, float sum) { return sum * w.scales[r]; }
};

template <typename V>
struct Mxfp4Format {
  using Matrix = Mxfp4Matrix;
  using Group = typename V::Mxfp4Block;
  static constexpr size_t kGroup = 32;
  static constexpr size_t kGroupBytes = 16;
  static constexpr bool kScalesByGroup = true;
  static constexpr bool kMadeScales = true;  // Of exponents.

  static const uint8_t* Row(const Matrix& w, size_t r) { return w.blocks + r * (w.cols / 2); }
  static Group Load(const Matrix& w, size_t r, size_t next, size_t g, bool /*whole*/) {
    return V::LoadMxfp4Block(Row(w, r) + g * kGroupBytes, Row(w, next) + g * kGroupBytes);
  }
  static auto Dot(const Group& group, const int8_t* codes, const int32_t* offsets) {
    return V::DotMxfp4(group, codes, offsets);
  }
  static const uint8_t* ScaleRow(const Matrix& w, size_t r) {
    return w.exponents + r * (w.cols / 32);
  }
  static bool SixteenWithin(const Matrix& w, size_t r, size_t g) {
    const size_t num_groups = w.cols / 32;
    return r * num_groups + g + 16 <= w.rows * num_groups;
  }
  static typename V::F SixteenScales(const Matrix& w, size_t r, size_t g) {
    return V::LoadHalfE8m0(ScaleRow(w, r) + g);
  }
  static float Scale(const Matrix& w, size_t r, size_t g) { return HalfE8m0(ScaleRow(w, r)[g]); }
  static float Finish(const Matrix& /*w*/, size_t /*r*/, float sum) { return sum; }
};

template <typename V, typename Format>
struct QuantizedBlock {
  using Lanes = typename V::Lanes;
  static constexpr size_t kLaneRows = V::kLaneRows;
  // Whether scales are multiplied for sixteen groups at once, before these. Not where a block has
  // several rows of activations and registers are too few to gain from it, unless making a scale is
  // itself work.
  template <size_t T>
  static constexpr bool kMadeBefore = Format::kScalesByGroup &&
                                      (T == 1 || kLaneRows > 1 || Format::kMadeScales);

  // The first rows of activations find the weights in memory, the others in the cache. Two
  // functions: pointers are more than the registers hold, and asking ahead takes one.
  template <size_t R, size_t T>
  void Run(size_t r0, size_t t0) const {
    if (t0 == 0) {
      RunBlock<R, T, true>(r0, t0);
    } else {
      RunBlock<R, T, false>(r0, t0);
    }
  }

  template <size_t R, size_t T, bool kAskAhead>
  [[gnu::noinline]] void RunBlock(size_t r0, size_t t0) const {
    constexpr size_t kB = (R + kLaneRows - 1) / kLaneRows;
    Lanes acc[kB][T];
#pragma GCC unroll 4
    for (size_t b = 0; b < kB; ++b) {
#pragma GCC unroll 4
      for (size_t t = 0; t < T; ++t) acc[b][t] = V::ZeroLanes();
    }
    const size_t num_groups = x.num_groups();
    const size_t num_whole = w.cols / Format::kGroup;
    alignas(64) float scales[R][T][16];
    for (size_t g = 0, end; g < num_groups; g = end) {
      end = kMadeBefore<T> && g + 16 < num_groups ? g + 16 : num_groups;
      if constexpr (kMadeBefore<T>) MakeScales<R, T>(r0, t0, g, end, scales);
      const size_t whole_end = end < num_whole ? end : num_whole;
      for (size_t i = g; i < whole_end; ++i) {
        if constexpr (kAskAhead) {
          Prefetch<R>(Format::Row(w, r0), w.cols * Format::kGroupBytes / Format::kGroup, i,
                      Format::kGroupBytes);
        }
        AddGroup<R, T>(r0, t0, i, true, scales, acc);
      }
      if (whole_end < end) AddGroup<R, T>(r0, t0, whole_end, false, scales, acc);
    }
#pragma GCC unroll 4
    for (size_t b = 0; b < kB; ++b) {
#pragma GCC unroll 4
      for (size_t t = 0; t < T; ++t) {
        float sums[kLaneRows];
        V::Trees(acc[b][t], sums);
#pragma GCC unroll 2
        for (size_t i = 0; i < kLaneRows; ++i) {
          const size_t r = b * kLaneRows + i;
          if (r >= R) break;
          y.data[(t0 + t) * y.stride + r0 + r] = Format::Finish(w, r0 + r, sums[i]);
        }
      }
    }
  }

  // s_w times s_x for groups [g, end), at most sixteen.
  template <size_t R, size_t T>
  [[gnu::always_inline]] void MakeScales(size_t r0, size_t t0, size_t g, size_t end,
                                         float (&scales)[R][T][16]) const {
#pragma GCC unroll 4
    for (size_t r = 0; r < R; ++r) {
      if (end - g > 4 && Format::SixteenWithin(w, r0 + r, g)) {
        // Beyond `end`, what is read is another row's or padding, and not used.
        const typename V::F weights = Format::SixteenScales(w, r0 + r, g);
#pragma GCC unroll 4
        for (size_t t = 0; t < T; ++t) {
          V::Store(scales[r][t], V::Mul(weights, V::Load(x.scales(t0 + t) + g)));
        }
      } else {
        for (size_t i = g; i < end; ++i) {
          const float weight = Format::Scale(w, r0 + r, i);
#pragma GCC unroll 4
          for (size_t t = 0; t < T; ++t) scales[r][t][i - g] = weight * x.scales(t0 + t)[i];
        }
      }
    }
  }

  template <size_t R, size_t T, size_t kB>
  [[gnu::always_inline]] void AddGroup(size_t r0, size_t t0, size_t g, bool whole,
                                       const float (&scales)[R][T][16], Lanes (&acc)[kB][T]) const {
#pragma GCC unroll 4
    for (size_t b = 0; b < kB; ++b) {
      const size_t r = b * kLaneRows;
      const size_t next = r + kLaneRows - 1 < R ? r + kLaneRows - 1 : r;
      const typename Format::Group group = Format::Load(w, r0 + r, r0 + next, g, whole);
#pragma GCC unroll 4
      for (size_t t = 0; t < T; ++t) {
        const Lanes p =
            Format::Dot(group, x.codes(t0 + t) + g * Format::kGroup, x.offsets(t0 + t) + g * 8);
        if constexpr (kMadeBefore<T>) {
          acc[b][t] = V::FmaLanes(p, &scales[r][t][g % 16], &scales[next][t][g % 16], acc[b][t]);
        } else if constexpr (Format::kScalesByGroup) {
          const float scale = Format::Scale(w, r0 + r, g) * x.scales(t0 + t)[g];
          acc[b][t] = V::FmaLanes(p, &scale, &scale, acc[b][t]);
        } else {
          const float* scale = x.scales(t0 + t) + g;
          acc[b][t] = V::FmaLanes(p, scale, scale, acc[b][t]);
        }
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
