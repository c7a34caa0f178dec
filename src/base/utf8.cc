#include "base/utf8.h"

#include <algorithm>
#include <cstdint>

namespace picchio {
namespace {

// What may follow a lead byte (Unicode 15, table 3-7): the number of continuation bytes and the
// range of the first of them; the others are 80..BF. Length 0: not a lead byte.
struct Lead {
  int continuations;
  uint8_t first_low;
  uint8_t first_high;
};

Lead LeadOf(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many of the bytes that should follow the lead at text[at] are there and right.
int GoodContinuations(std::string_view text, size_t at, const Lead& lead) {
  int good = 0;
  while (good < lead.continuations && at + 1 + static_cast<size_t>(good) < text.size()) {
    const auto byte = static_cast<uint8_t>(text[at + 1 + static_cast<size_t>(good)]);
    const uint8_t low = good == 0 ? lead.first_low : 0x80;
    const uint8_t high = good == 0 ? lead.first_high : 0xBF;
    if (byte < low || byte > high) break;
    ++good;
  }
  return good;
}

}  // namespace

size_t ValidUtf8Prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte < 0x80) {
      ++at;
      continue;
    }
    const Lead lead = LeadOf(byte);
    if (lead.continuations == 0 || GoodContinuations(text, at, lead) < lead.continuations) break;
    at += 1 + static_cast<size_t>(lead.continuations);
  }
  return at;
}

size_t IncompleteUtf8Suffix(std::string_view text) {
  for (size_t length = 1; length <= std::min<size_t>(3, text.size()); ++length) {
    const size_t at = text.size() - length;
    const Lead lead = LeadOf(static_cast<uint8_t>(text[at]));
    if (lead.continuations == 0) continue;
    const bool open = static_cast<size_t>(lead.continuations) >= length;
    return open && GoodContinuations(text, at, lead) == static_cast<int>(length) - 1 ? length : 0;
  }
  return 0;
}

}  // namespace picchio
