// Weights must be finite: the guard of whoever converts or loads them.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"
#include "format/dtype.h"

namespace picchio {

// Sets `max_abs` to max|w| (0 where there is none). Fails with kCorrupt where a weight is NaN or
// infinite, naming `row_idx` and the first such column, counted from `first_col`.
Status MaxMagnitude(std::span<const float> weights, size_t row_idx, size_t first_col,
                    float& max_abs);

// The index of the first element that is NaN or infinite, or the number of elements where all are
// finite. `dtype` is a float type.
size_t FirstNotFinite(Dtype dtype, std::span<const std::byte> weights);

// OK where all elements of whole rows of `cols` elements are finite. Fails with kCorrupt, naming
// the first other one's column and its row, counted from `first_row`. `dtype` is a float type.
Status CheckFinite(Dtype dtype, std::span<const std::byte> weights, size_t cols, size_t first_row);

}  // namespace picchio
