#include "tokenizer/byte_level.h"

#include <array>

namespace picchio {
namespace {

constexpr char32_t kFirstStandIn = 0x100;
constexpr int kNumStandIns = 68;

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The bytes that U+0100, U+0101, ... stand for.
constexpr std::array<uint8_t, kNumStandIns> kStoodFor = [] {
  std::array<uint8_t, kNumStandIns> bytes{};
  size_t next = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (!StandsForItself(byte)) bytes[next++] = static_cast<uint8_t>(byte);
  }
  return bytes;
}();

}  // namespace

char32_t ByteLevelCharacter(uint8_t byte) {
  if (StandsForItself(byte)) return byte;
  char32_t character = kFirstStandIn;
  for (const uint8_t stood_for : kStoodFor) {
    if (stood_for == byte) break;
    ++character;
  }
  return character;
}

std::optional<std::string> BytesOfByteLevel(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t at = 0; at < token.size(); ++at) {
    const auto lead = static_cast<uint8_t>(token[at]);
    char32_t character = lead;
    if (lead >= 0x80) {
      // All stand-ins are below U+0800, two bytes at most.
      if (lead >= 0xE0 || ++at == token.size()) return std::nullopt;
      character = (lead & 0x1Fu) << 6 | (static_cast<uint8_t>(token[at]) & 0x3Fu);
    }
    if (character >= kFirstStandIn) {
      if (character >= kFirstStandIn + kNumStandIns) return std::nullopt;
      bytes.push_back(static_cast<char>(kStoodFor[character - kFirstStandIn]));
    } else {
      if (!StandsForItself(static_cast<int>(character))) return std::nullopt;
      bytes.push_back(static_cast<char>(character));
    }
  }
  return bytes;
}

}  // namespace picchio
