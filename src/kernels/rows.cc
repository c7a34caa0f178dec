#include "kernels/rows.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/float_bits.h"

namespace picchio {

void DecodeRow(const Bf16Matrix& matrix, size_t row, std::span<float> out) {
  PICCHIO_CHECK(row < matrix.rows && out.size() == matrix.cols);
  const uint16_t* bits = matrix.data + row * matrix.cols;
  for (size_t i = 0; i < out.size(); ++i) out[i] = WidenBf16(bits[i]);
}

void DecodeRow(const F32Matrix& matrix, size_t row, std::span<float> out) {
  PICCHIO_CHECK(row < matrix.rows && out.size() == matrix.cols);
  std::copy_n(matrix.data + row * matrix.cols, matrix.cols, out.begin());
}

void DecodeRow(const Int8Matrix& matrix, size_t row, std::span<float> out) {
  PICCHIO_CHECK(row < matrix.rows && out.size() == matrix.cols);
  const int8_t* codes = matrix.codes + row * matrix.cols;
  const float scale = matrix.scales[row];
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(codes[i]) * scale;
}

size_t Argmax(std::span<const float> values) {
  PICCHIO_CHECK(!values.empty());
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace picchio
