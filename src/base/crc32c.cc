#include "base/crc32c.h"

#include <array>
#include <vector>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "base/little_endian.h"

namespace picchio {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;

// tables[k][b]: what byte b becomes after k more bytes of zero.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t state = byte;
    for (int bit = 0; bit < 8; ++bit) state = state >> 1 ^ ((state & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = state;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t state = tables[k - 1][byte];
      tables[k][byte] = state >> 8 ^ tables[0][state & 255];
    }
  }
  return tables;
}
constexpr Tables kTables = MakeTables();

// Eight bytes at a time (Kounavis and Berry, "Novel Table Lookup-Based Algorithms for
// High-Performance CRC Generation", 2008).
uint32_t TableCrc(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t state = ~before;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    const uint64_t word = LoadLittleEndian<uint64_t>(at) ^ state;
    state = 0;
    for (size_t k = 0; k < 8; ++k) state ^= kTables[7 - k][word >> (8 * k) & 255];
  }
  for (; left > 0; --left, ++at) {
    state = state >> 8 ^ kTables[0][(state ^ static_cast<uint32_t>(*at)) & 255];
  }
  return ~state;
}

#if defined(__x86_64__) || (defined(__aarch64__) && defined(__linux__))

// The instruction takes a new word every cycle but answers after three: three stripes of a block
// are computed side by side. A CRC is linear, so their states join by running the earlier one over
// the zeros that the later stripe is for it: a table for each byte of the state.
constexpr size_t kStripe = 1024;

using ZerosTable = std::array<std::array<uint32_t, 256>, 4>;

ZerosTable MakeZerosTable() {
  std::array<uint32_t, 32> of_bit{};
  for (size_t bit = 0; bit < 32; ++bit) {
    uint32_t state = uint32_t{1} << bit;
    for (size_t i = 0; i < kStripe; ++i) state = state >> 8 ^ kTables[0][state & 255];
    of_bit[bit] = state;
  }
  ZerosTable table{};
  for (size_t k = 0; k < 4; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      for (size_t bit = 0; bit < 8; ++bit) {
        if ((byte >> bit & 1) != 0) table[k][byte] ^= of_bit[8 * k + bit];
      }
    }
  }
  return table;
}

uint32_t OverZeros(uint32_t state) {
  static const ZerosTable table = MakeZerosTable();
  return table[0][state & 255] ^ table[1][state >> 8 & 255] ^ table[2][state >> 16 & 255] ^
         table[3][state >> 24];
}

#if defined(__x86_64__)
#define PICCHIO_CRC_TARGET __attribute__((target("sse4.2")))
#define PICCHIO_CRC_WORD(state, word) _mm_crc32_u64(state, word)
#define PICCHIO_CRC_BYTE(state, byte) _mm_crc32_u8(static_cast<uint32_t>(state), byte)
#else
#define PICCHIO_CRC_TARGET __attribute__((target("+crc")))
#define PICCHIO_CRC_WORD(state, word) __crc32cd(static_cast<uint32_t>(state), word)
#define PICCHIO_CRC_BYTE(state, byte) __crc32cb(static_cast<uint32_t>(state), byte)
#endif

PICCHIO_CRC_TARGET uint32_t InstructionCrc(std::span<const std::byte> bytes, uint32_t before) {
  uint64_t state = ~before;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 3 * kStripe; left -= 3 * kStripe, at += 3 * kStripe) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kStripe; i += 8) {
      state = PICCHIO_CRC_WORD(state, LoadLittleEndian<uint64_t>(at + i));
      second = PICCHIO_CRC_WORD(second, LoadLittleEndian<uint64_t>(at + kStripe + i));
      third = PICCHIO_CRC_WORD(third, LoadLittleEndian<uint64_t>(at + 2 * kStripe + i));
    }
    state = OverZeros(static_cast<uint32_t>(state)) ^ second;
    state = OverZeros(static_cast<uint32_t>(state)) ^ third;
  }
  for (; left >= 8; left -= 8, at += 8) {
    state = PICCHIO_CRC_WORD(state, LoadLittleEndian<uint64_t>(at));
  }
  for (; left > 0; --left, ++at) state = PICCHIO_CRC_BYTE(state, static_cast<uint8_t>(*at));
  return ~static_cast<uint32_t>(state);
}

bool HasInstruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2") != 0;
#else
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#endif
}

#endif

}  // namespace

std::span<const Crc32cMethod> UsableCrc32cMethods() {
  static const std::vector<Crc32cMethod> methods = [] {
    std::vector<Crc32cMethod> usable = {{"table", TableCrc}};
#if defined(__x86_64__) || (defined(__aarch64__) && defined(__linux__))
    if (HasInstruction()) usable.push_back({"instruction", InstructionCrc});
#endif
    return usable;
  }();
  return methods;
}

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before) {
  static const auto compute = UsableCrc32cMethods().back().compute;
  return compute(bytes, before);
}

}  // namespace picchio
