// Quantising, norms, rotation, gates and plain vector operations over a vector class V
// (avx2_vector.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/float_bits.h"
#include "kernels/matrix.h"
#include "kernels/quantized_rows.h"
#include "kernels/swiglu.h"
#include "kernels/vector_exp.h"
#include "kernels/vector_weights.h"

namespace picchio::vector {

// The first `count` <= 16 floats of p, then zeros.
template <typename V>
typename V::F LoadUpTo16(const float* p, size_t count) {
  return count >= 16 ? V::Load(p) : V::Load(Padded<float, 16>(p, count).values);
}

template <typename V>
void StoreUpTo16(float* p, size_t count, typename V::F a) {
  if (count >= 16) {
    V::Store(p, a);
  } else {
    alignas(64) float values[16];
    V::Store(values, a);
    __builtin_memcpy(p, values, count * sizeof(float));
  }
}

// --- Quantising ---

template <typename V>
void QuantizeGroup(const float* x, size_t count, ActivationKind kind, int8_t* codes,
                   int32_t* offsets, float* scale) {
  const size_t group_size = GroupSize(kind);
  // Magnitudes compare as their bits do, and a NaN is larger than all.
  typename V::I largest = V::SetI(0);
  for (size_t i = 0; i < count; i += 16) {
    largest = V::MaxI(largest, V::BitsOf(V::Abs(LoadUpTo16<V>(x + i, count - i))));
  }
  const float m = FloatOf(static_cast<uint32_t>(V::LargestI(largest)));
  if (m < 0x1p-100F) {
    *scale = 0;
    __builtin_memset(codes, 0, group_size);
    __builtin_memset(offsets, 0, 8 * sizeof(int32_t));
    return;
  }
  *scale = m / 127.0F;
  const typename V::F inverse = V::Set(127.0F / m);
  alignas(64) int8_t natural[64] = {};
  for (size_t i = 0; i < count; i += 16) {
    V::StoreRounded(natural + i, V::Mul(LoadUpTo16<V>(x + i, count - i), inverse));
  }
  switch (kind) {
    case ActivationKind::kForInt4:
      V::SplitBytes(natural, codes, codes + 32);
      V::SplitBytes(natural + 32, codes + 16, codes + 48);
      break;
    case ActivationKind::kForInt8:
      __builtin_memcpy(codes, natural, 64);
      break;
    case ActivationKind::kForMxfp4:
      V::SplitBytes(natural, codes, codes + 16);
      break;
  }
  V::StoreFourSums(codes, group_size == 64 ? codes + 32 : nullptr, -WeightBias(kind), offsets);
}

template <typename V>
void Quantize(F32Rows x, const QuantizedRows& out) {
  const size_t group_size = GroupSize(out.kind());
  for (size_t t = 0; t < x.num_rows; ++t) {
    for (size_t g = 0; g < out.num_groups(); ++g) {
      const size_t begin = g * group_size;
      const size_t rest = out.cols() - begin;
      QuantizeGroup<V>(x.data + t * x.stride + begin, rest < group_size ? rest : group_size,
                       out.kind(), out.codes(t) + begin, out.offsets(t) + g * 8, out.scales(t) + g);
    }
  }
}

// --- Rows ---

template <typename V>
void RmsNorm(F32Rows x, size_t cols, const float* w, float eps, F32Output y) {
  for (size_t t = 0; t < x.num_rows; ++t) {
    const float* row = x.data + t * x.stride;
    typename V::F acc = V::Set(0);  // Squares: no lane can become -0, so zeros may be added.
    for (size_t i = 0; i < cols; i += 16) {
      const typename V::F v = LoadUpTo16<V>(row + i, cols - i);
      acc = V::Fma(v, v, acc);
    }
    const float mean = V::Fold(acc) / static_cast<float>(cols);
    const typename V::F r = V::Set(1.0F / __builtin_sqrtf(mean + eps));
    for (size_t i = 0; i < cols; i += 16) {
      const typename V::F scaled = V::Mul(LoadUpTo16<V>(row + i, cols - i), r);
      StoreUpTo16<V>(y.data + t * y.stride + i, cols - i,
                     V::Mul(scaled, LoadUpTo16<V>(w + i, cols - i)));
    }
  }
}

template <typename V>
void Rope(float* x, size_t num_heads, size_t head_dim, const float* cos, const float* sin) {
  const size_t half = head_dim / 2;
  for (size_t i = 0; i < half; i += 16) {
    const typename V::F c = LoadUpTo16<V>(cos + i, half - i);
    const typename V::F s = LoadUpTo16<V>(sin + i, half - i);
    for (size_t h = 0; h < num_heads; ++h) {
      float* first = x + h * head_dim + i;
      const typename V::F a = LoadUpTo16<V>(first, half - i);
      const typename V::F b = LoadUpTo16<V>(first + half, half - i);
      StoreUpTo16<V>(first, half - i, V::Fma(a, c, V::Negate(V::Mul(b, s))));
      StoreUpTo16<V>(first + half, half - i, V::Fma(b, c, V::Mul(a, s)));
    }
  }
}

template <typename V>
void Swiglu(const float* gate_up, size_t n, float* out) {
  for (size_t i = 0; i < n; i += 16) {
    const typename V::F gate = LoadUpTo16<V>(gate_up + i, n - i);
    const typename V::F up = LoadUpTo16<V>(gate_up + n + i, n - i);
    StoreUpTo16<V>(out + i, n - i, V::Mul(V::Mul(gate, Sigmoid<V>(gate)), up));
  }
}

template <typename V>
void SwigluClamped(const float* gate_up, size_t n, float limit, float* out) {
  using F = typename V::F;
  const F high = V::Set(limit);
  const F low = V::Set(-limit);
  for (size_t i = 0; i < n; i += 16) {
    F gate;
    F up;
    if (n - i >= 16) {
      V::LoadPairs(gate_up + 2 * i, gate, up);
    } else {
      V::LoadPairs(Padded<float, 32>(gate_up + 2 * i, 2 * (n - i)).values, gate, up);
    }
    gate = V::Select(V::Less(high, gate), high, gate);
    up = V::Select(V::Less(high, up), high, up);
    up = V::Select(V::Less(up, low), low, up);
    const F gated = V::Mul(gate, Sigmoid<V>(V::Mul(V::Set(kSwigluAlpha), gate)));
    StoreUpTo16<V>(out + i, n - i, V::Mul(gated, V::Add(up, V::Set(1))));
  }
}

// --- Vectors ---

template <typename V>
void ExpAll(const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; i += 16) {
    StoreUpTo16<V>(y + i, n - i, Exp<V>(LoadUpTo16<V>(x + i, n - i)));
  }
}

template <typename V>
void Add(const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; i += 16) {
    StoreUpTo16<V>(y + i, n - i, V::Add(LoadUpTo16<V>(x + i, n - i), LoadUpTo16<V>(y + i, n - i)));
  }
}

template <typename V>
void Scale(float a, const float* x, size_t n, float* y) {
  const typename V::F factor = V::Set(a);
  for (size_t i = 0; i < n; i += 16) {
    StoreUpTo16<V>(y + i, n - i, V::Mul(factor, LoadUpTo16<V>(x + i, n - i)));
  }
}

template <typename V>
void AddScaled(float a, const float* x, size_t n, float* y) {
  const typename V::F factor = V::Set(a);
  for (size_t i = 0; i < n; i += 16) {
    StoreUpTo16<V>(y + i, n - i,
                   V::Fma(factor, LoadUpTo16<V>(x + i, n - i), LoadUpTo16<V>(y + i, n - i)));
  }
}

template <typename V>
bool AllFinite(const float* x, size_t n) {
  const typename V::F zero = V::Set(0);
  typename V::F sum = zero;  // Zero times anything but NaN and infinity is zero.
  for (size_t i = 0; i < n; i += 16) sum = V::Fma(zero, LoadUpTo16<V>(x + i, n - i), sum);
  return V::Fold(sum) == 0;
}

}  // namespace picchio::vector
