// Unicode Normalization Form C (Unicode Standard Annex #15), the only normaliser that the supported
// tokenizers use. The character data are utf8proc's.
#pragma once

#include <string>
#include <string_view>

namespace picchio {

// True where a look at the bytes alone shows that `text` (valid UTF-8) is in NFC: nothing in it
// reaches U+0300, below which no character composes, moves or changes. Most text in Latin scripts.
bool IsTriviallyNfc(std::string_view text);

// `text` (valid UTF-8) in NFC. Takes O(n log n) time whatever the text: a megabyte of combining
// marks in the wrong order is sorted, not bubbled.
std::string ToNfc(std::string_view text);

}  // namespace picchio
