// Sizes by their names: 4_KiB, 256_MiB. Reports give memory in MiB and GiB, rates in GB/s (10^9).
#pragma once

#include <cstdint>

namespace picchio {

// NOLINTBEGIN(google-runtime-int): the language fixes the parameter's type.
constexpr uint64_t operator""_KiB(unsigned long long n) { return n << 10; }
constexpr uint64_t operator""_MiB(unsigned long long n) { return n << 20; }
constexpr uint64_t operator""_GiB(unsigned long long n) { return n << 30; }
// NOLINTEND(google-runtime-int)

// `n` rounded up to a multiple of `multiple`, which is not 0. The caller knows that it does not
// wrap.
constexpr uint64_t RoundUp(uint64_t n, uint64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

constexpr uint64_t CeilDiv(uint64_t n, uint64_t divisor) { return (n + divisor - 1) / divisor; }

}  // namespace picchio
