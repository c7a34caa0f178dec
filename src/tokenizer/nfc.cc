#include "tokenizer/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"

namespace picchio {
namespace {

constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

// The longest canonical decomposition of one character has four (U+0390 has three, Hangul three).
constexpr utf8proc_ssize_t kMaxDecomposition = 8;

// The full canonical decomposition of each character, in the order of the text.
std::vector<utf8proc_int32_t> Decompose(std::string_view text) {
  std::vector<utf8proc_int32_t> out;
  out.reserve(text.size() + kMaxDecomposition);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  for (utf8proc_ssize_t at = 0; at < size;) {
    utf8proc_int32_t character = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(bytes + at, size - at, &character);
    PICCHIO_CHECK(length > 0);
    at += length;
    const size_t end = out.size();
    out.resize(end + kMaxDecomposition);
    int boundary_class = 0;
    const utf8proc_ssize_t written = utf8proc_decompose_char(
        character, out.data() + end, kMaxDecomposition, kOptions, &boundary_class);
    PICCHIO_CHECK(written >= 0 && written <= kMaxDecomposition);
    out.resize(end + static_cast<size_t>(written));
  }
  return out;
}

int CombiningClass(utf8proc_int32_t character) {
  return utf8proc_get_property(character)->combining_class;
}

// The canonical ordering: each run of characters with a combining class, by class, stably.
// (utf8proc_decompose orders by exchanging neighbours, which a long run makes quadratic.)
void Reorder(std::vector<utf8proc_int32_t>& characters) {
  const auto starts = [](utf8proc_int32_t c) { return CombiningClass(c) == 0; };
  const auto less = [](utf8proc_int32_t a, utf8proc_int32_t b) {
    return CombiningClass(a) < CombiningClass(b);
  };
  for (auto at = characters.begin(); at != characters.end();) {
    const auto run = std::find_if_not(at, characters.end(), starts);
    at = std::find_if(run, characters.end(), starts);
    if (!std::is_sorted(run, at, less)) std::stable_sort(run, at, less);
  }
}

// Composes `characters`, which are decomposed and ordered, and appends them to `out` as UTF-8.
void Compose(std::span<utf8proc_int32_t> characters, std::string& out) {
  const utf8proc_ssize_t composed = utf8proc_normalize_utf32(
      characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), kOptions);
  PICCHIO_CHECK(composed >= 0);
  for (const utf8proc_int32_t character : characters.first(static_cast<size_t>(composed))) {
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t length = utf8proc_encode_char(character, bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
  }
}

}  // namespace

bool IsTriviallyNfc(std::string_view text) {
  // U+0300 begins with the byte CC, and lead bytes ascend with the characters.
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0xCC; });
}

std::string ToNfc(std::string_view text) {
  std::vector<utf8proc_int32_t> characters = Decompose(text);
  Reorder(characters);
  std::string out;
  out.reserve(text.size());
  // utf8proc 2.8 takes U+11A7, one below the first trailing jamo, for "no trailing consonant" and
  // drops it after a syllable. It composes with nothing and begins anew, so it can be kept out of
  // the way.
  constexpr utf8proc_int32_t kBelowTrailingJamo = 0x11A7;
  for (auto begin = characters.begin(); begin != characters.end();) {
    const auto end = std::find(begin, characters.end(), kBelowTrailingJamo);
    Compose({begin, end}, out);
    begin = end;
    for (; begin != characters.end() && *begin == kBelowTrailingJamo; ++begin) out += "\u11A7";
  }
  return out;
}

}  // namespace picchio
