#include "tokenizer/pre_tokenizer.h"

#include <utility>

namespace picchio {
namespace {

// Splits every piece further by `regex`.
Status SplitPieces(const Regex& regex, PreTokens& tokens) {
  const std::vector<size_t> pieces = std::exchange(tokens.ends, {});
  size_t begin = 0;
  for (const size_t end : pieces) {
    // A stage sees its piece alone: what lies beyond is not there for lookarounds.
    const std::string_view piece = std::string_view(tokens.text).substr(begin, end - begin);
    size_t last = begin;
    PICCHIO_RETURN_IF_ERROR(regex.ForEachMatch(piece, [&](size_t match_begin, size_t match_end) {
      if (begin + match_begin > last) tokens.ends.push_back(begin + match_begin);
      last = begin + match_end;
      tokens.ends.push_back(last);
    }));
    if (last < end) tokens.ends.push_back(end);
    begin = end;
  }
  return Status::Ok();
}

void PrefixSpaces(PreTokens& tokens) {
  std::string spaced;
  spaced.reserve(tokens.text.size() + tokens.ends.size());
  size_t begin = 0;
  for (size_t& end : tokens.ends) {
    if (tokens.text[begin] != ' ') spaced += ' ';
    spaced.append(tokens.text, begin, end - begin);
    begin = std::exchange(end, spaced.size());
  }
  tokens.text = std::move(spaced);
}

}  // namespace

Result<PreTokens> PreTokenizer::Split(std::string_view text) const {
  PreTokens tokens{.text = std::string(text), .ends = {}};
  if (!text.empty()) tokens.ends.push_back(text.size());
  for (size_t i = 0; i <= splits_.size(); ++i) {
    if (prefix_space_ && i == prefix_after_) PrefixSpaces(tokens);
    if (i == splits_.size()) break;
    PICCHIO_RETURN_IF_ERROR(SplitPieces(splits_[i], tokens));
  }
  return tokens;
}

}  // namespace picchio
