#include <cmath>

#include "kernels/exp.h"
#include "kernels/scalar.h"
#include "kernels/swiglu.h"

namespace picchio::scalar {

float RmsFactor(const float* x, size_t n, float eps) {
  const float mean = Dot16(x, x, n) / static_cast<float>(n);
  return 1.0F / std::sqrt(mean + eps);
}

void RmsNorm(F32Rows x, size_t cols, const float* w, float eps, F32Output y) {
  for (size_t t = 0; t < x.num_rows; ++t) {
    const float* row = x.data + t * x.stride;
    const float r = RmsFactor(row, cols, eps);
    for (size_t i = 0; i < cols; ++i) y.data[t * y.stride + i] = (row[i] * r) * w[i];
  }
}

void Rope(float* x, size_t num_heads, size_t head_dim, const float* cos, const float* sin) {
  const size_t half = head_dim / 2;
  for (size_t h = 0; h < num_heads; ++h) {
    float* first = x + h * head_dim;
    float* second = first + half;
    for (size_t i = 0; i < half; ++i) {
      const float a = first[i];
      const float b = second[i];
      first[i] = std::fma(a, cos[i], -(b * sin[i]));
      second[i] = std::fma(b, cos[i], a * sin[i]);
    }
  }
}

void Swiglu(const float* gate_up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = Silu(gate_up[i]) * gate_up[n + i];
}

void SwigluClamped(const float* gate_up, size_t n, float limit, float* out) {
  for (size_t i = 0; i < n; ++i) {
    float gate = gate_up[2 * i];
    float up = gate_up[2 * i + 1];
    gate = gate > limit ? limit : gate;  // Comparisons that keep a NaN.
    up = up > limit ? limit : up;
    up = up < -limit ? -limit : up;
    out[i] = (gate * Sigmoid(kSwigluAlpha * gate)) * (up + 1.0F);
  }
}

void Exp(const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = picchio::Exp(x[i]);
}

void Add(const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = x[i] + y[i];
}

void Scale(float a, const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = a * x[i];
}

void AddScaled(float a, const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = std::fma(a, x[i], y[i]);
}

bool AllFinite(const float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (!std::isfinite(x[i])) return false;
  }
  return true;
}

}  // namespace picchio::scalar
