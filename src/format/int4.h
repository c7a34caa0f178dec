// INT4 in groups of 64: each row's elements in groups along the row (the last may be shorter), a
// signed code in [-8, 7] for every element and one F32 scale per group; an element is decoded as
// code * scale. Codes are stored as nibbles code + 8, element 2i in the low and 2i + 1 in the high
// half of byte i of the row.
//
// Two schemes choose scales and codes:
//   absmax  scale = max|w| / 7, code = rint(w / scale) clamped. Both divisions are single IEEE F32
//           divisions, ties go to even: this is the reference scheme, exact to the bit.
//   mse     the scale of least squared error in each group, found by search (format/int4_search.h),
//           and never worse than absmax in any group. A scale may be negative: code -8 then stands
//           for the largest positive value, which saves a group whose peak is positive an eighth.
// A group whose scale is 0 (all weights 0, or so small that the division underflows) has codes 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "format/dtype.h"
#include "format/quant_error.h"

namespace picchio {

inline constexpr size_t kInt4Group = 64;

enum class Int4Scheme : uint8_t { kAbsmax, kMse };

// Scales of one row of `cols` elements; its codes take cols / 2 bytes.
constexpr size_t Int4GroupsPerRow(size_t cols) { return (cols + kInt4Group - 1) / kInt4Group; }

// Quantises whole rows.
//   weights: [rows, cols] of a float type, contiguous, any alignment
//   packed:  [rows, cols / 2]
//   scales:  [rows, Int4GroupsPerRow(cols)]
// The sizes must fit each other and cols be even (a caller's bug else); nothing overlaps. Adds to
// `error`. Fails with kCorrupt where a weight is NaN or infinite, naming its column and its row,
// counted from `first_row`; what was written until then is to be thrown away.
// Deterministic: the same bytes on every machine, however the rows are split among calls.
Status QuantizeInt4(Int4Scheme scheme, Dtype dtype, std::span<const std::byte> weights, size_t cols,
                    size_t first_row, std::span<std::byte> packed, std::span<float> scales,
                    QuantError& error);

}  // namespace picchio
