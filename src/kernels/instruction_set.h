// The instruction sets that kernels are written for, and which of them this CPU has.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace picchio {

enum class InstructionSet : uint8_t {
  kScalar,   // Plain C++: the definition that the others are held against.
  kAvx2,     // AVX2 and FMA.
  kAvxVnni,  // AVX2, FMA and AVX-VNNI.
  kAvx512,   // AVX-512 F, BW, DQ, VL and VNNI.
  kNeon,     // Advanced SIMD with the dot product of Armv8.2.
};

// Slowest first.
inline constexpr std::array kInstructionSets = {InstructionSet::kScalar, InstructionSet::kAvx2,
                                                InstructionSet::kAvxVnni, InstructionSet::kAvx512,
                                                InstructionSet::kNeon};

// "scalar", "avx2", "avx-vnni", "avx512", "neon".
std::string_view InstructionSetName(InstructionSet set);

// Whether the CPU and the operating system run it.
bool CpuHas(InstructionSet set);

}  // namespace picchio
