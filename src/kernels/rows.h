// Single rows: an embedding decoded, the largest logit found.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/matrix.h"

namespace picchio {

// Row `row` of an embedding as F32, into out (cols elements): BF16 and F32 exact, INT8 float(code)
// * scale, rounded once. The row is in range.
void DecodeRow(const Bf16Matrix& matrix, size_t row, std::span<float> out);
void DecodeRow(const F32Matrix& matrix, size_t row, std::span<float> out);
void DecodeRow(const Int8Matrix& matrix, size_t row, std::span<float> out);

// The index of the largest value, the lowest on ties. `values` are finite and not empty.
size_t Argmax(std::span<const float> values);

}  // namespace picchio
