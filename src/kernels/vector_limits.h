// The limits of a core (limits.h) over a vector class V (avx2_vector.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/limits.h"

namespace picchio::vector {

// Of the 32-bit words of registers.
template <typename Register, size_t N>
uint32_t SumOfWords(const Register (&registers)[N]) {
  uint32_t words[N * sizeof(Register) / sizeof(uint32_t)];
  __builtin_memcpy(words, registers, sizeof(words));
  uint32_t sum = 0;
  for (const uint32_t word : words) sum += word;
  return sum;
}

// One stream from front to back: several beside each other, or asking ahead for what comes, were
// slower (docs/performance.md).
template <typename V>
uint32_t ReadAll(const std::byte* data, size_t bytes) {
  typename V::I sums[4] = {V::SetI(0), V::SetI(0), V::SetI(0), V::SetI(0)};
  for (size_t i = 0; i < bytes; i += 256) {
#pragma GCC unroll 4
    for (size_t s = 0; s < 4; ++s) {
      const auto* p = reinterpret_cast<const float*>(data + i + 64 * s);
      sums[s] = V::AddI(sums[s], V::BitsOf(V::Load(p)));
    }
  }
  return SumOfWords(sums);
}

// Chains of dependent additions, enough to hide an instruction's latency.
template <typename V>
uint32_t MultiplyBytes(size_t rounds) {
  using Bytes = typename V::Bytes;
  Bytes a = V::SetBytes(3);
  Bytes b = V::SetBytes(2);
  Bytes sums[V::kByteChains];
#pragma GCC unroll 16
  for (Bytes& sum : sums) {
    sum = V::SetBytes(0);
    V::Hide(sum);
  }
  V::Hide(b);
  for (size_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (Bytes& sum : sums) {
      V::Hide(a);  // Or the compiler would take the product out of the loop.
      sum = V::AddProducts(sum, a, b);
    }
  }
  return SumOfWords(sums);
}

template <typename V>
float MultiplyFloats(size_t rounds) {
  using F = typename V::F;
  F sums[V::kFloatChains];
#pragma GCC unroll 16
  for (size_t c = 0; c < V::kFloatChains; ++c) sums[c] = V::Set(static_cast<float>(c));
  for (size_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (F& sum : sums) sum = V::Fma(V::Set(0.5F), V::Set(1.0F), sum);
  }
  F all = V::Set(0);
#pragma GCC unroll 16
  for (const F& sum : sums) all = V::Add(all, sum);
  return V::Fold(all);
}

template <typename V>
consteval CoreLimits LimitsOver(InstructionSet set) {
  return {.instruction_set = set,
          .read = ReadAll<V>,
          .multiply_bytes = MultiplyBytes<V>,
          .integer_ops = 2 * V::kByteChains * sizeof(typename V::Bytes),
          .multiply_floats = MultiplyFloats<V>,
          .float_ops = 2 * V::kFloatChains * 16,
          .float_chains = V::kFloatChains};
}

}  // namespace picchio::vector
