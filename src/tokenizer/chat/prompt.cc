#include "tokenizer/chat/prompt.h"

#include <optional>

#include "tokenizer/tokenizer.h"

namespace picchio {

Prompt& Prompt::Token(std::string_view name) {
  pieces_.push_back({true, std::string(name)});
  return *this;
}

Prompt& Prompt::Text(std::string_view text) {
  if (text.empty()) return *this;
  if (pieces_.empty() || pieces_.back().is_token) pieces_.emplace_back();
  pieces_.back().text += text;
  return *this;
}

std::string Prompt::Rendered() const {
  std::string text;
  for (const PromptPiece& piece : pieces_) text += piece.text;
  return text;
}

Result<std::vector<int32_t>> Prompt::Encode(const Tokenizer& tokenizer) const {
  std::vector<int32_t> ids;
  for (const PromptPiece& piece : pieces_) {
    if (piece.is_token) {
      const std::optional<int32_t> id = tokenizer.AddedTokenId(piece.text);
      if (!id) {
        return Error(Code::kUnsupported,
                     "the tokenizer has no token {}, which the chat format needs: the tokenizer or "
                     "the chat template is another model's",
                     piece.text);
      }
      ids.push_back(*id);
      continue;
    }
    PICCHIO_ASSIGN_OR_RETURN(const std::vector<int32_t> text,
                             tokenizer.Encode(piece.text, SpecialTokens::kAsText));
    ids.insert(ids.end(), text.begin(), text.end());
  }
  return ids;
}

}  // namespace picchio
