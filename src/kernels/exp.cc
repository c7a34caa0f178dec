#include "kernels/exp.h"

#include <cmath>
#include <cstdint>

#include "kernels/float_bits.h"

namespace picchio {
namespace {

// 2^k for -126 <= k <= 127.
float PowerOfTwo(int32_t k) { return FloatOf(static_cast<uint32_t>(k + 127) << 23); }

}  // namespace

float Exp(float x) {
  namespace c = exp_constants;
  if (std::isnan(x)) return x;
  x = x < c::kMin ? c::kMin : x;
  x = x > c::kMax ? c::kMax : x;
  // x = n ln 2 + r. The first subtraction is exact: both terms are multiples of the last bit that
  // the difference has.
  const float shifted = std::fma(x, c::kLog2E, c::kShift);
  const float n = shifted - c::kShift;
  const auto k = static_cast<int32_t>(BitsOf(shifted) - BitsOf(c::kShift));
  float r = std::fma(n, c::kMinusLn2High, x);
  r = std::fma(n, c::kMinusLn2Low, r);

  float q = std::fma(c::kC6, r, c::kC5);
  q = std::fma(q, r, c::kC4);
  q = std::fma(q, r, c::kC3);
  q = std::fma(q, r, c::kC2);
  const float p = std::fma(r * r, q, r) + 1.0F;

  // In two steps, the first of them exact: 2^k alone may lie outside F32, and a result below 2^-126
  // must be rounded once.
  const int32_t half = k >> 1;
  return p * PowerOfTwo(half) * PowerOfTwo(k - half);
}

float Sigmoid(float x) {
  const float e = Exp(-std::fabs(x));  // At most 1: neither overflows nor cancels.
  return (x < 0 ? e : 1.0F) / (1.0F + e);
}

float Silu(float x) { return x * Sigmoid(x); }

}  // namespace picchio
