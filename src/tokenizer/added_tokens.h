// Tokens that are found in the text as they are written, before anything else is done to it:
// control tokens, and what a model's makers added to the vocabulary afterwards.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace picchio {

// A set of such tokens. May be searched by any number of threads at once.
class AddedTokens {
 public:
  struct Match {
    size_t begin;
    size_t end;
    int32_t id;
  };

  AddedTokens() = default;
  // {content, id}; the contents are not empty and all different.
  explicit AddedTokens(std::vector<std::pair<std::string, int32_t>> tokens);

  bool empty() const { return tokens_.empty(); }

  // The leftmost match in `text` that begins at `from` or later, the longest of several there. An
  // empty one at the end of the text (id -1) where there is none.
  Match Find(std::string_view text, size_t from) const;

 private:
  std::vector<std::pair<std::string, int32_t>> tokens_;  // Sorted by content.
  // [first byte]: the tokens_ that begin with it are [begin, end) of this.
  std::array<std::pair<uint32_t, uint32_t>, 256> by_first_byte_{};
};

}  // namespace picchio
