// MXFP4 (OCP Microscaling Formats specification 1.0, sections 5.3.3 and 5.4): blocks of 32 E2M1
// codes, low nibble first, that share one E8M0 scale byte e, a factor of 2^(e - 127). Read and
// kept, never made here.
//
// A checkpoint stores a matrix [rows, cols] as two U8 tensors: blocks [..., rows, cols / 32, 16]
// and scales [..., rows, cols / 32].
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"

namespace picchio {

inline constexpr size_t kMxfp4Block = 32;       // Elements.
inline constexpr size_t kMxfp4BlockBytes = 16;  // Of codes; the scale byte lies elsewhere.
inline constexpr uint8_t kE8M0Nan = 255;

// The value of a code 0..15: sign, two exponent bits, one fraction bit.
float E2M1ToF32(uint8_t code);

// 2^(e - 127), exact (e = 0 gives a denormal). e is not kE8M0Nan.
float E8M0ToF32(uint8_t e);

// Fails with kCorrupt where a scale is the reserved 255 (NaN), naming its row (of `cols` elements,
// counted from `first_row`) and block. scales: [rows, cols / 32].
Status CheckMxfp4Scales(std::span<const std::byte> scales, size_t cols, size_t first_row);

// Decode whole rows, exactly. blocks: [rows, cols / 32, 16]; scales: [rows, cols / 32]; out: [rows,
// cols], for BF16 little-endian bits. The sizes must fit each other and cols be a multiple of 32 (a
// caller's bug else). Fail with kCorrupt where a scale is 255, with kUnsupported where a value is
// 2^128 or more, which neither F32 nor BF16 can hold (everything else that the format can say, both
// can); they name row and block.
Status DecodeMxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                   size_t cols, size_t first_row, std::span<float> out);
Status DecodeMxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                   size_t cols, size_t first_row, std::span<uint16_t> out);

}  // namespace picchio
