// The search behind the INT4 scheme "mse".
#pragma once

#include <span>

#include "format/int4.h"

namespace picchio {

// The scale (of either sign) under which `group`, rounded to codes in [-8, 7], has nearly the least
// squared error: within 1 % of the least one on groups like those of real models.
//
// For given codes q the best scale is sum(w q) / sum(q^2), which leaves the error
// sum(w^2) - sum(w q)^2 / sum(q^2); so the search takes codes from a grid of clipping ratios, keeps
// those that maximise the last term, and then alternates (codes for the scale, scale for the codes)
// until nothing improves. group: finite values, kInt4Group of them (a shorter group padded by
// zeros), max_abs = max|w| in [2^-100, 2^100]: no intermediate leaves F32's normal range.
float FindInt4Scale(std::span<const float, kInt4Group> group, float max_abs);

}  // namespace picchio
