#include "format/int8.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "format/f32x4.h"
#include "format/finite.h"

namespace picchio {
namespace {

// The codes are far below 2^22.
using f32x4::kRoundingMagic;

double SumOfSquares(std::span<const float> values) {
  double lanes[4] = {};
  size_t i = 0;
  for (; i + 4 <= values.size(); i += 4) {
    for (size_t k = 0; k < 4; ++k) {
      lanes[k] += static_cast<double>(values[i + k]) * static_cast<double>(values[i + k]);
    }
  }
  for (; i < values.size(); ++i)
    lanes[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

// Codes one row and leaves in it what the coding lost.
void EncodeRow(std::span<float> row, float scale, std::span<int8_t> codes) {
  if (scale == 0) {
    std::fill(codes.begin(), codes.end(), int8_t{0});
    return;
  }
  for (size_t i = 0; i < row.size(); ++i) {
    const float ratio = row[i] / scale;
    const float high = ratio > 127.0F ? 127.0F : ratio;
    const float limited = high < -127.0F ? -127.0F : high;
    const float code = (limited + kRoundingMagic) - kRoundingMagic;
    row[i] -= code * scale;
    codes[i] = static_cast<int8_t>(static_cast<int32_t>(code));
  }
}

}  // namespace

Status QuantizeInt8(Dtype dtype, std::span<const std::byte> weights, size_t cols, size_t first_row,
                    std::span<int8_t> codes, std::span<float> scales, QuantError& error) {
  PICCHIO_CHECK(cols > 0);
  const size_t row_bytes = cols * DtypeBytes(dtype);
  const size_t rows = scales.size();
  PICCHIO_CHECK(weights.size() == rows * row_bytes && codes.size() == rows * cols);
  std::vector<float> row(cols);
  for (size_t r = 0; r < rows; ++r) {
    WidenToF32(dtype, weights.subspan(r * row_bytes, row_bytes), row);
    float max_abs = 0;
    PICCHIO_RETURN_IF_ERROR(MaxMagnitude(row, first_row + r, 0, max_abs));
    const double squared_sum = SumOfSquares(row);
    scales[r] = max_abs / 127.0F;
    EncodeRow(row, scales[r], codes.subspan(r * cols, cols));
    error.Add({SumOfSquares(row), squared_sum});
  }
  return Status::Ok();
}

void DecodeInt8Row(std::span<const int8_t> codes, float scale, std::span<float> out) {
  PICCHIO_CHECK(codes.size() == out.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(codes[i]) * scale;
}

}  // namespace picchio
