#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "base/check.h"

namespace picchio {

AddedTokens::AddedTokens(std::vector<std::pair<std::string, int32_t>> tokens)
    : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end());
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    PICCHIO_CHECK(!tokens_[i].first.empty());
    auto& [begin, end] = by_first_byte_[static_cast<uint8_t>(tokens_[i].first[0])];
    if (end == 0) begin = i;
    end = i + 1;
  }
}

AddedTokens::Match AddedTokens::Find(std::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    auto [begin, end] = by_first_byte_[static_cast<uint8_t>(text[at])];
    Match longest{.begin = at, .end = at, .id = -1};
    // tokens_[begin, end) are those that agree with the text on the first `length` bytes; a shorter
    // one sorts before all that continue it.
    for (size_t length = 1; begin < end; ++length) {
      if (tokens_[begin].first.size() == length) {
        longest.end = at + length;
        longest.id = tokens_[begin].second;
        ++begin;
      }
      if (at + length == text.size()) break;
      const auto next = static_cast<uint8_t>(text[at + length]);
      const auto first = tokens_.begin();
      const auto byte_of = [length](const auto& token) {
        return static_cast<uint8_t>(token.first[length]);
      };
      const auto low = std::partition_point(
          first + begin, first + end, [&](const auto& token) { return byte_of(token) < next; });
      const auto high = std::partition_point(
          low, first + end, [&](const auto& token) { return byte_of(token) == next; });
      begin = static_cast<uint32_t>(low - first);
      end = static_cast<uint32_t>(high - first);
    }
    if (longest.id >= 0) return longest;
  }
  return {.begin = text.size(), .end = text.size(), .id = -1};
}

}  // namespace picchio
