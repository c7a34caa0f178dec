#include "format/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace picchio {

Status MaxMagnitude(std::span<const float> weights, size_t row_idx, size_t first_col,
                    float& max_abs) {
  // As integers, magnitudes keep their order and NaN and infinity stand above all finite ones; and
  // unlike a maximum of floats, this one vectorises.
  int32_t max = 0;
  for (const float w : weights) {
    max = std::max(max, static_cast<int32_t>(std::bit_cast<uint32_t>(w) & 0x7fffffffU));
  }
  max_abs = std::bit_cast<float>(max);
  if (std::isfinite(max_abs)) return Status::Ok();
  const auto at =
      std::find_if(weights.begin(), weights.end(), [](float w) { return !std::isfinite(w); });
  return Error(Code::kCorrupt, "row {} column {} is {}: weights must be finite", row_idx,
               first_col + static_cast<size_t>(at - weights.begin()),
               std::isnan(*at) ? "NaN" : "infinite");
}

}  // namespace picchio
