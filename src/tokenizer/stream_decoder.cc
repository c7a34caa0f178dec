#include "tokenizer/stream_decoder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace picchio {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The length of the maximal subpart at the beginning of `text`, which begins no whole character:
// the longest beginning of some character, or else one byte.
size_t MaximalSubpart(std::string_view text) {
  for (size_t length = std::min<size_t>(3, text.size()); length > 1; --length) {
    if (IncompleteUtf8Suffix(text.substr(0, length)) == length) return length;
  }
  return 1;
}

// `bytes` with every maximal subpart that is no character replaced.
std::string Repaired(std::string_view bytes) {
  std::string text;
  while (true) {
    const size_t valid = ValidUtf8Prefix(bytes);
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) return text;
    text += kReplacement;
    bytes.remove_prefix(MaximalSubpart(bytes));
  }
}

}  // namespace

std::string StreamDecoder::Push(int32_t id) {
  held_ += tokenizer_->TokenBytes(id);
  const size_t whole = held_.size() - IncompleteUtf8Suffix(held_);
  std::string text = Repaired(std::string_view(held_).substr(0, whole));
  held_.erase(0, whole);
  return text;
}

std::string StreamDecoder::Finish() { return Repaired(std::exchange(held_, {})); }

}  // namespace picchio
