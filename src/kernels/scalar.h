// The scalar kernels: the contract written down as plainly as C++ allows. Speed is not its
// business. What the other files of the room build on, or tests look into, is declared here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/matrix.h"
#include "kernels/quantized_rows.h"

namespace picchio::scalar {

// Adds the eight lanes of a quantised product: j and j + 4, then j + 2, then j + 1.
float Tree8(const float acc[8]);

// sum of w * x over n elements in sixteen lanes, lane = index mod 16, each fma in ascending order
// from +0; then lanes i and i + 8, i + 4, i + 2, i + 1.
float Dot16(const float* w, const float* x, size_t n);

// The exact sums of w * q in one group, by lane. `codes` as QuantizedRows keeps them; `n` elements
// of the group are there (INT4: even, at most 64; INT8: at most 64; MXFP4: 32).
void Int4Partials(const uint8_t* w, const int8_t* codes, size_t n, int32_t p[8]);
void Int8Partials(const int8_t* w, const int8_t* codes, size_t n, int32_t p[8]);
void Mxfp4Partials(const uint8_t* w, const int8_t* codes, int32_t p[8]);

void Quantize(F32Rows x, const QuantizedRows& out);

void MatmulInt4(const Int4Matrix& w, RowRange rows, const QuantizedRows& x, F32Output y);
void MatmulInt8(const Int8Matrix& w, RowRange rows, const QuantizedRows& x, F32Output y);
void MatmulMxfp4(const Mxfp4Matrix& w, RowRange rows, const QuantizedRows& x, F32Output y);
void MatmulBf16(const Bf16Matrix& w, RowRange rows, F32Rows x, F32Output y);
void MatmulF32(const F32Matrix& w, RowRange rows, F32Rows x, F32Output y);
void MatmulInt8F32(const Int8Matrix& w, RowRange rows, F32Rows x, F32Output y);
void MatmulInt4F32(const Int4Matrix& w, RowRange rows, F32Rows x, F32Output y);
void MatmulMxfp4F32(const Mxfp4Matrix& w, RowRange rows, F32Rows x, F32Output y);

// 1 / sqrt(Dot16(x, x) / n + eps)
float RmsFactor(const float* x, size_t n, float eps);
void RmsNorm(F32Rows x, size_t cols, const float* w, float eps, F32Output y);
void Rope(float* x, size_t num_heads, size_t head_dim, const float* cos, const float* sin);
void Swiglu(const float* gate_up, size_t n, float* out);
void SwigluClamped(const float* gate_up, size_t n, float limit, float* out);

void Attention(const AttentionTask& task, float* scratch);

void Exp(const float* x, size_t n, float* y);
void Add(const float* x, size_t n, float* y);
void Scale(float a, const float* x, size_t n, float* y);
void AddScaled(float a, const float* x, size_t n, float* y);
bool AllFinite(const float* x, size_t n);

}  // namespace picchio::scalar
