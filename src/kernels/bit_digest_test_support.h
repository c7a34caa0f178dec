// One number for the bits of many floats, to compare what two machines computed.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace picchio {

// FNV-1a, 64 bits, over the bits of results, little-endian.
class BitDigest {
 public:
  void Add(std::span<const float> values) {
    for (const float value : values) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      for (int shift = 0; shift < 32; shift += 8) {
        hash_ = (hash_ ^ (bits >> shift & 255)) * 0x100000001b3;
      }
    }
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace picchio
