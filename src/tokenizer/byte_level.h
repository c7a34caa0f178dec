// The byte-level alphabet: how a tokenizer file writes bytes as text.
//
// A byte-level vocabulary is over bytes, but JSON holds characters, so each byte has a printable
// stand-in: the printable ones of Latin-1 (21-7E, A1-AC, AE-FF) stand for themselves, the other 68
// in ascending order for U+0100, U+0101, ... (space is U+0120). Introduced with GPT-2's encoder
// (openai/gpt-2, src/encoder.py, bytes_to_unicode).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace picchio {

// The stand-in of a byte as a code point.
char32_t ByteLevelCharacter(uint8_t byte);

// The bytes that a token of the file stands for; nothing where a character of it is no stand-in.
// `token` is valid UTF-8.
std::optional<std::string> BytesOfByteLevel(std::string_view token);

}  // namespace picchio
