// A byte-level tokenizer file small enough to read, for tests and fuzz targets of any room.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/json.h"
#include "tokenizer/byte_level.h"

namespace picchio {

// The stand-in of a byte, as text.
inline std::string ByteLevelText(uint8_t byte) {
  const char32_t c = ByteLevelCharacter(byte);
  if (c < 0x80) return {static_cast<char>(c)};
  return {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
}

// Ids 0 to 255 are the bytes; 256 "he", 257 "ll", 258 "hell", 259 "hello", 260 " w", 261 "or",
// 262 " wor", 263 "ld", 264 " world" by merges in this order; 265 <|end|> is special, 266 <think>
// is added but not special. NFC, Qwen's splits, written with "a b" merges.
inline Json TinyTokenizer() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[ByteLevelText(static_cast<uint8_t>(byte))] = byte;
  Json merges = Json::array();
  const std::string space = ByteLevelText(' ');
  const std::initializer_list<std::pair<std::string, std::string>> pairs = {
      {"h", "e"}, {"l", "l"},          {"he", "ll"}, {"hell", "o"},        {space, "w"},
      {"o", "r"}, {space + "w", "or"}, {"l", "d"},   {space + "wor", "ld"}};
  for (const auto& [left, right] : pairs) {
    vocab[left + right] = vocab.size();
    merges.push_back(fmt::format("{} {}", left, right));
  }
  const auto added = [](const char* content, int id, bool special) {
    return Json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", special}};
  };
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", false},
                           {"use_regex", false}};
  const char* regex =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
      R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", regex}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", {added("<|end|>", 265, true), added("<think>", 266, false)}},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
      {"post_processor", byte_level},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", ""},
        {"end_of_word_suffix", ""},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocab},
        {"merges", merges}}},
  };
}

}  // namespace picchio
