// UTF-8 (RFC 3629) as bytes come in: whole, broken or not yet complete.
#pragma once

#include <cstddef>
#include <string_view>

namespace picchio {

// The length of the longest prefix of `text` that is valid UTF-8: text.size() where all of it is.
// Surrogates, overlong forms and values above U+10FFFF are not valid.
size_t ValidUtf8Prefix(std::string_view text);

inline bool IsValidUtf8(std::string_view text) { return ValidUtf8Prefix(text) == text.size(); }

// How many bytes at the end of `text` are the beginning of a character that more bytes could still
// complete: 0 to 3. A streaming decoder holds them back.
size_t IncompleteUtf8Suffix(std::string_view text);

}  // namespace picchio
