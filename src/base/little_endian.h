// Little-endian integers at any address, as every file format here has them.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>

namespace picchio {

// No machine this runs on is big-endian; one that is would need a swap here and nowhere else.
static_assert(std::endian::native == std::endian::little);

template <std::unsigned_integral T>
T LoadLittleEndian(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <std::unsigned_integral T>
void StoreLittleEndian(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace picchio
