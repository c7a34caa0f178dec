// Cuts a text into the pieces that byte-pair encoding works on, one after the other.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/regex.h"

namespace picchio {

// A text in pieces: pieces i is [ends[i - 1], ends[i]) of `text`; none is empty.
struct PreTokens {
  std::string text;
  std::vector<size_t> ends;
};

// The stages of a tokenizer file's "pre_tokenizer". May be used by any number of threads at once.
class PreTokenizer {
 public:
  // A "Split" that isolates: matches become pieces, and so does what lies between two of them.
  void AddSplit(Regex regex) { splits_.push_back(std::move(regex)); }
  // "add_prefix_space": after all splits so far, a piece that does not begin with a space gets one.
  // Splits that are added later work on the pieces with their spaces.
  void AddPrefixSpace() { prefix_after_ = splits_.size(), prefix_space_ = true; }

  // `text` is valid UTF-8. Fails where a regular expression gives up.
  Result<PreTokens> Split(std::string_view text) const;

 private:
  std::vector<Regex> splits_;
  bool prefix_space_ = false;
  size_t prefix_after_ = 0;  // The number of splits that come before the spaces.
};

// The expression of a "ByteLevel" stage with "use_regex", GPT-2's own.
inline constexpr std::string_view kByteLevelRegex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace picchio
