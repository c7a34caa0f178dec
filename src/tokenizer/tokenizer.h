// Text to token ids and back: a byte-level BPE tokenizer as its `tokenizer.json` defines it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/merges.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace picchio {

// What the text of a control token, say "<|im_end|>", means where it stands in a text.
enum class SpecialTokens : uint8_t {
  kRecognise,  // The control token: for text that the program wrote, such as a chat template's.
  kAsText,  // The characters that it is written with: for what a user or a tool wrote. No special
            // token can come out; the other added tokens ("<think>", "<tool_call>") are not
            // looked for either.
};

// May be used by any number of threads at once.
class Tokenizer {
 public:
  // Reads a `tokenizer.json`. What it asks for and this class cannot do exactly is refused by name;
  // so are ids, merges and tokens that contradict each other.
  static Result<Tokenizer> Load(const Path& path);
  // `where` is what messages call the text.
  static Result<Tokenizer> Parse(std::string_view json, std::string_view where);

  // The ids of `text`, without any that a template would put around it: the same as the Hugging
  // Face tokenizers give with add_special_tokens = false. Refuses what is not UTF-8, naming the
  // byte, and texts over 256 MiB. O(n log n) time for all published tokenizers.
  Result<std::vector<int32_t>> Encode(std::string_view text, SpecialTokens special) const;

  // The text of the ids, control tokens as they are written. Bytes that are no UTF-8 come out as
  // U+FFFD, one for each maximal part of a character; ids that are no token as nothing.
  std::string Decode(std::span<const int32_t> ids) const;

  // The bytes that the token stands for, which need not be whole characters; empty where the id is
  // no token. Lives as long as the tokenizer.
  std::string_view TokenBytes(int32_t id) const { return vocabulary_.Bytes(id); }
  bool HasToken(int32_t id) const { return vocabulary_.Has(id); }

  // The highest id and one; some ids below may be no token.
  int32_t vocab_size() const { return vocabulary_.size(); }
  // OK where a model with `model_vocab_size` embeddings has one for every id. It usually has more,
  // padded to a round number: those ids are never to be sampled.
  Status CheckFitsVocabulary(int64_t model_vocab_size) const;

  // The id of an added token (special or not) by how it is written.
  std::optional<int32_t> AddedTokenId(std::string_view content) const;
  // The ids of all tokens marked special, ascending.
  std::span<const int32_t> special_ids() const { return special_ids_; }
  bool IsSpecial(int32_t id) const;

 private:
  friend class TokenizerFile;  // Builds it.

  Tokenizer(std::string where, Vocabulary vocabulary, Merges merges)
      : where_(std::move(where)), vocabulary_(std::move(vocabulary)), merges_(std::move(merges)) {}

  class Encoding;

  std::string where_;
  Vocabulary vocabulary_;
  Merges merges_;
  bool ignore_merges_ = false;  // A piece that is a token as a whole is that token, merges or not.
  bool nfc_ = false;
  PreTokenizer pre_tokenizer_;
  AddedTokens added_;             // Found in the text as it is.
  AddedTokens added_normalized_;  // Found in the normalised text between those.
  std::vector<int32_t> added_ids_;
  std::vector<int32_t> special_ids_;  // Ascending.
};

}  // namespace picchio
