// A rendered conversation: control tokens by name, and text between them that is nothing but text.
//
// What a user, a tool or the model itself wrote never becomes a control token, because no text is
// ever searched for any. All text between two control tokens is one stretch, wherever it came from,
// so that it gives the tokens that the reference gives for the rendered whole: byte-pair merges may
// reach from a template's words into a message's, but never across a control token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace picchio {

class Tokenizer;

struct PromptPiece {
  bool is_token = false;  // A token by how it is written, else text.
  std::string text;

  bool operator==(const PromptPiece&) const = default;
};

class Prompt {
 public:
  Prompt& Token(std::string_view name);
  Prompt& Text(std::string_view text);

  // Neither empty texts nor two texts in a row.
  const std::vector<PromptPiece>& pieces() const { return pieces_; }

  // As a template renders it, where control tokens and their look-alikes cannot be told apart.
  std::string Rendered() const;

  // Refuses a tokenizer without one of the control tokens, and text that is not UTF-8.
  Result<std::vector<int32_t>> Encode(const Tokenizer& tokenizer) const;

 private:
  std::vector<PromptPiece> pieces_;
};

}  // namespace picchio
