#include <cmath>

#include "base/check.h"
#include "kernels/float_bits.h"
#include "kernels/scalar.h"

namespace picchio::scalar {
namespace {

int32_t Nibble(const uint8_t* bytes, size_t i) { return bytes[i / 2] >> (i % 2 * 4) & 15; }

// Dot16 of weights that are given one by one.
template <typename WeightAt>
float Dot16Of(WeightAt weight_at, const float* x, size_t n) {
  float a[16] = {};
  for (size_t i = 0; i < n; ++i) a[i % 16] = std::fma(weight_at(i), x[i], a[i % 16]);
  for (size_t width = 8; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) a[i] = a[i] + a[i + width];
  }
  return a[0];
}

// y[t, r] = result(r, t) for all rows of the range and of x.
template <typename ResultOf>
void ForEach(RowRange rows, size_t num_rows, F32Output y, ResultOf result) {
  for (size_t t = 0; t < num_rows; ++t) {
    for (size_t r = rows.begin; r < rows.end; ++r) y.data[t * y.stride + r] = result(r, t);
  }
}

}  // namespace

float Tree8(const float acc[8]) {
  float t[4];
  for (size_t j = 0; j < 4; ++j) t[j] = acc[j] + acc[j + 4];
  const float u0 = t[0] + t[2];
  const float u1 = t[1] + t[3];
  return u0 + u1;
}

float Dot16(const float* w, const float* x, size_t n) {
  return Dot16Of([w](size_t i) { return w[i]; }, x, n);
}

void Int4Partials(const uint8_t* w, const int8_t* codes, size_t n, int32_t p[8]) {
  for (size_t j = 0; j < 8; ++j) p[j] = 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t index = QuantizedRows::CodeIndex(ActivationKind::kForInt4, i);
    p[i / 8] += (Nibble(w, i) - 8) * codes[index];
  }
}

void Int8Partials(const int8_t* w, const int8_t* codes, size_t n, int32_t p[8]) {
  for (size_t j = 0; j < 8; ++j) p[j] = 0;
  for (size_t i = 0; i < n; ++i) p[i % 32 / 4] += w[i] * codes[i];
}

void Mxfp4Partials(const uint8_t* w, const int8_t* codes, int32_t p[8]) {
  for (size_t j = 0; j < 8; ++j) p[j] = 0;
  for (size_t i = 0; i < 32; ++i) {
    const size_t index = QuantizedRows::CodeIndex(ActivationKind::kForMxfp4, i);
    p[i / 8 + i % 2 * 4] += kTwiceE2m1[Nibble(w, i)] * codes[index];
  }
}

void MatmulInt4(const Int4Matrix& w, RowRange rows, const QuantizedRows& x, F32Output y) {
  PICCHIO_DCHECK(x.kind() == ActivationKind::kForInt4 && x.cols() == w.cols);
  ForEach(rows, x.num_rows(), y, [&](size_t r, size_t t) {
    float acc[8] = {};
    for (size_t g = 0; g < x.num_groups(); ++g) {
      const size_t begin = g * 64;
      int32_t p[8];
      Int4Partials(w.codes + (r * w.cols + begin) / 2, x.codes(t) + begin,
                   w.cols - begin < 64 ? w.cols - begin : 64, p);
      const float sc = w.scales[r * x.num_groups() + g] * x.scales(t)[g];
      for (size_t j = 0; j < 8; ++j) acc[j] = std::fma(static_cast<float>(p[j]), sc, acc[j]);
    }
    return Tree8(acc);
  });
}

void MatmulInt8(const Int8Matrix& w, RowRange rows, const QuantizedRows& x, F32Output y) {
  PICCHIO_DCHECK(x.kind() == ActivationKind::kForInt8 && x.cols() == w.cols);
  ForEach(rows, x.num_rows(), y, [&](size_t r, size_t t) {
    float acc[8] = {};
    for (size_t g = 0; g < x.num_groups(); ++g) {
      const size_t begin = g * 64;
      int32_t p[8];
      Int8Partials(w.codes + r * w.cols + begin, x.codes(t) + begin,
                   w.cols - begin < 64 ? w.cols - begin : 64, p);
      const float sc = x.scales(t)[g];
      for (size_t j = 0; j < 8; ++j) acc[j] = std::fma(static_cast<float>(p[j]), sc, acc[j]);
    }
    return Tree8(acc) * w.scales[r];
  });
}

void MatmulMxfp4(const Mxfp4Matrix& w, RowRange rows, const QuantizedRows& x, F32Output y) {
  PICCHIO_DCHECK(x.kind() == ActivationKind::kForMxfp4 && x.cols() == w.cols);
  ForEach(rows, x.num_rows(), y, [&](size_t r, size_t t) {
    float acc[8] = {};
    for (size_t g = 0; g < x.num_groups(); ++g) {
      const size_t block = r * x.num_groups() + g;
      int32_t p[8];
      Mxfp4Partials(w.blocks + block * 16, x.codes(t) + g * 32, p);
      const float sc = HalfE8m0(w.exponents[block]) * x.scales(t)[g];
      for (size_t j = 0; j < 8; ++j) acc[j] = std::fma(static_cast<float>(p[j]), sc, acc[j]);
    }
    return Tree8(acc);
  });
}

void MatmulBf16(const Bf16Matrix& w, RowRange rows, F32Rows x, F32Output y) {
  ForEach(rows, x.num_rows, y, [&](size_t r, size_t t) {
    const uint16_t* row = w.data + r * w.cols;
    return Dot16Of([row](size_t i) { return WidenBf16(row[i]); }, x.data + t * x.stride, w.cols);
  });
}

void MatmulF32(const F32Matrix& w, RowRange rows, F32Rows x, F32Output y) {
  ForEach(rows, x.num_rows, y, [&](size_t r, size_t t) {
    return Dot16(w.data + r * w.cols, x.data + t * x.stride, w.cols);
  });
}

void MatmulInt8F32(const Int8Matrix& w, RowRange rows, F32Rows x, F32Output y) {
  ForEach(rows, x.num_rows, y, [&](size_t r, size_t t) {
    const int8_t* row = w.codes + r * w.cols;
    const auto weight_at = [row](size_t i) { return static_cast<float>(row[i]); };
    return Dot16Of(weight_at, x.data + t * x.stride, w.cols) * w.scales[r];
  });
}

void MatmulInt4F32(const Int4Matrix& w, RowRange rows, F32Rows x, F32Output y) {
  const size_t num_groups = (w.cols + 63) / 64;
  ForEach(rows, x.num_rows, y, [&](size_t r, size_t t) {
    const uint8_t* row = w.codes + r * w.cols / 2;
    const float* scales = w.scales + r * num_groups;
    const auto weight_at = [row, scales](size_t i) {
      return static_cast<float>(Nibble(row, i) - 8) * scales[i / 64];
    };
    return Dot16Of(weight_at, x.data + t * x.stride, w.cols);
  });
}

void MatmulMxfp4F32(const Mxfp4Matrix& w, RowRange rows, F32Rows x, F32Output y) {
  ForEach(rows, x.num_rows, y, [&](size_t r, size_t t) {
    const uint8_t* row = w.blocks + r * w.cols / 2;
    const uint8_t* exponents = w.exponents + r * w.cols / 32;
    const auto weight_at = [row, exponents](size_t i) {
      return static_cast<float>(kTwiceE2m1[Nibble(row, i)]) * HalfE8m0(exponents[i / 32]);
    };
    return Dot16Of(weight_at, x.data + t * x.stride, w.cols);
  });
}

}  // namespace picchio::scalar
