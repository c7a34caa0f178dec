// INT8 per row: signed codes in [-127, 127] and one F32 scale for the row; an element is decoded as
// code * scale. scale = max|w| / 127, code = rint(w / scale): both divisions are single IEEE F32
// divisions, ties go to even. A row whose scale is 0 (all weights 0, or so small that the division
// underflows) has codes 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "format/dtype.h"
#include "format/quant_error.h"

namespace picchio {

// Quantises whole rows.
//   weights: [rows, cols] of a float type, contiguous, any alignment
//   codes:   [rows, cols]
//   scales:  [rows]
// The sizes must fit each other (a caller's bug else); nothing overlaps. Adds to `error`. Fails
// with kCorrupt where a weight is NaN or infinite, naming its column and its row, counted from
// `first_row`; what was written until then is to be thrown away. Deterministic, however the rows
// are split among calls.
Status QuantizeInt8(Dtype dtype, std::span<const std::byte> weights, size_t cols, size_t first_row,
                    std::span<int8_t> codes, std::span<float> scales, QuantError& error);

// Decodes one row: out[i] = codes[i] * scale, rounded once.
void DecodeInt8Row(std::span<const int8_t> codes, float scale, std::span<float> out);

}  // namespace picchio
