#include <cmath>

#include "base/check.h"
#include "kernels/float_bits.h"
#include "kernels/scalar.h"

namespace picchio::scalar {
namespace {

constexpr float kTiny = 0x1p-100F;

// The lane of the product that takes the code at `index` of a group, as codes are stored: the bytes
// 4j..4j+3, and of INT4 and INT8 also 32+4j..32+4j+3, are one 32-bit element of a vector register.
size_t LaneOf(size_t index) { return index % 32 / 4; }

// Nearest, ties to even, for |v| < 2^22: 1.5 * 2^23 leaves no bits below the point. Defined for NaN
// too (some integer), where a conversion is not.
int32_t Round(float v) {
  constexpr float kShift = 0x1.8p23F;
  return static_cast<int32_t>(BitsOf(v + kShift) - BitsOf(kShift));
}

void QuantizeRow(const float* x, const QuantizedRows& out, size_t row) {
  const ActivationKind kind = out.kind();
  const size_t group_size = GroupSize(kind);
  for (size_t g = 0; g < out.num_groups(); ++g) {
    const size_t begin = g * group_size;
    const size_t end = begin + group_size < out.cols() ? begin + group_size : out.cols();
    int8_t* codes = out.codes(row) + begin;
    int32_t* offsets = out.offsets(row) + g * 8;
    for (size_t i = 0; i < group_size; ++i) codes[i] = 0;
    for (size_t j = 0; j < 8; ++j) offsets[j] = 0;

    float m = 0;  // A NaN is larger than all: it must reach the scale and so the result.
    for (size_t i = begin; i < end; ++i) {
      const float magnitude = std::fabs(x[i]);
      if (!(magnitude <= m)) m = magnitude;
      if (std::isnan(m)) break;
    }
    if (m < kTiny) {
      out.scales(row)[g] = 0;
      continue;
    }
    out.scales(row)[g] = m / 127.0F;
    const float inverse = 127.0F / m;
    for (size_t i = begin; i < end; ++i) {
      const auto q = static_cast<int8_t>(Round(x[i] * inverse));
      const size_t index = QuantizedRows::CodeIndex(kind, i) - begin;
      codes[index] = q;
      offsets[LaneOf(index)] -= WeightBias(kind) * q;
    }
  }
}

}  // namespace

void Quantize(F32Rows x, const QuantizedRows& out) {
  PICCHIO_DCHECK(x.num_rows == out.num_rows());
  for (size_t t = 0; t < x.num_rows; ++t) QuantizeRow(x.data + t * x.stride, out, t);
}

}  // namespace picchio::scalar
