// Reads a `tokenizer.json` in the layout of the Hugging Face tokenizers library (version "1.0").
//
// Accepted are, field by field:
//
// - truncation, padding: null;
// - normalizer: null, NFC, a Sequence of NFC;
// - pre_tokenizer: ByteLevel, or a Sequence of Split (a Regex, isolated, not inverted) and, last,
//   ByteLevel;
// - model: BPE over all 256 bytes, merges as "a b" or ["a", "b"], ignore_merges; no dropout,
//   prefix, suffix or byte_fallback;
// - added_tokens: special or not, normalized or not; no lstrip, rstrip, single_word;
// - decoder: ByteLevel;
// - post_processor: null, ByteLevel, TemplateProcessing with one text, a Sequence of them: ids
//   without special tokens do not depend on it.
//
// Everything else, an unknown field too, is refused by name. What a token is written with must
// agree with the tables: ids are unique, a merge's parts and its outcome are tokens, an added token
// that is in the vocabulary has its id there, and no merge makes a special token.
#pragma once

#include <string_view>

#include "base/status.h"
#include "tokenizer/tokenizer.h"

namespace picchio {

class TokenizerFile {
 public:
  static Result<Tokenizer> Parse(std::string_view json, std::string_view where);
};

}  // namespace picchio
