// CRC-32C (Castagnoli), as in RFC 3720 section 12.1: reflected polynomial 0x82f63b78, all ones at
// the start, inverted at the end. Finds every burst of up to 32 bits and is quick enough to check
// each record on each load; it is no protection against intent, for which there is SHA-256.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace picchio {

// The CRC of `bytes`, or of what had the CRC `before` followed by `bytes`. Any thread.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// The ways to compute it, for tests; Crc32c takes the fastest that this machine has.
struct Crc32cMethod {
  std::string_view name;
  uint32_t (*compute)(std::span<const std::byte> bytes, uint32_t before);
};
std::span<const Crc32cMethod> UsableCrc32cMethods();  // Slowest first; the table is always there.

}  // namespace picchio
