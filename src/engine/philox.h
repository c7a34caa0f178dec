// Counter-based random numbers: the value at a position is a function of the seed and the position
// alone, so a run can be resumed, split or checked by another machine without any state.
//
// Philox4x32-10 of J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, "Parallel Random Numbers:
// As Easy as 1, 2, 3", SC'11, section 4.3.
#pragma once

#include <array>
#include <cstdint>

namespace picchio {

// Ten rounds of Philox over the 128-bit counter, word 0 lowest, with a 64-bit key.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// A double in [0, 1), a multiple of 2^-53, uniform over positions and over seeds.
// key = {seed & 0xffffffff, seed >> 32}; counter = {position & 0xffffffff, position >> 32, 0, 0};
// with the output words x0..x3, u = ((x1 << 32 | x0) >> 11) * 2^-53. x2 and x3 are not used.
double UniformAt(uint64_t seed, uint64_t position);

}  // namespace picchio
