// The quantisers' guard: weights must be finite.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace picchio {

// Sets `max_abs` to max|w| (0 where there is none). Fails with kCorrupt where a weight is NaN or
// infinite, naming `row_idx` and the first such column, counted from `first_col`.
Status MaxMagnitude(std::span<const float> weights, size_t row_idx, size_t first_col,
                    float& max_abs);

}  // namespace picchio
