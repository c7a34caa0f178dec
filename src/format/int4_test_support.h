// INT4 rows decoded, for tests of what was coded: the kernels have their own ways.
#pragma once

#include <cstddef>
#include <span>

#include "base/check.h"
#include "format/int4.h"

namespace picchio {

// One row of out.size() elements (even). Exact but for the product's one rounding.
inline void DecodeInt4Row(std::span<const std::byte> packed, std::span<const float> scales,
                          std::span<float> out) {
  PICCHIO_CHECK(out.size() % 2 == 0 && packed.size() == out.size() / 2 &&
                scales.size() == Int4GroupsPerRow(out.size()));
  for (size_t i = 0; i < packed.size(); ++i) {
    const auto pair = static_cast<uint32_t>(packed[i]);
    const float scale = scales[2 * i / kInt4Group];
    out[2 * i] = static_cast<float>(static_cast<int>(pair & 15) - 8) * scale;
    out[2 * i + 1] = static_cast<float>(static_cast<int>(pair >> 4) - 8) * scale;
  }
}

}  // namespace picchio
