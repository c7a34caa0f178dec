// What a core can do at most with the instructions of one set: programs that do nothing but read
// memory, multiply bytes in registers, or multiply floats in registers. Kernels are measured
// against them. Each returns what depends on all of its work, so that none of it can be left out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/instruction_set.h"

namespace picchio {

struct CoreLimits {
  InstructionSet instruction_set;

  // Reads a multiple of 256 bytes at a multiple of 4; their sum as 32-bit words, modulo 2^32.
  uint32_t (*read)(const std::byte* data, size_t bytes);

  // Products of bytes, 3 times 2, added to 32-bit lanes that start at 0, as the quantised products
  // do it. Each round is `integer_ops` operations, a multiplication and an addition being two of
  // them. The sum of all lanes, modulo 2^32.
  uint32_t (*multiply_bytes)(size_t rounds);
  size_t integer_ops;

  // The same of fused multiply-adds: 0.5 times 1 is added to lanes, those of chain c start at c.
  float (*multiply_floats)(size_t rounds);
  size_t float_ops;
  size_t float_chains;  // Of 16 lanes, or of one in the scalar set.
};

// The limits of an instruction set, or null where this build or this CPU lacks it.
const CoreLimits* LimitsFor(InstructionSet set);

}  // namespace picchio
