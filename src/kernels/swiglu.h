// A constant of gpt-oss's gated activation that its configuration does not carry.
#pragma once

namespace picchio {

// gate * sigmoid(alpha * gate): rounded to F32 from the 1.702 of the reference implementation.
inline constexpr float kSwigluAlpha = 1.702F;

}  // namespace picchio
