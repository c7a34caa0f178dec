// The "model" of a tokenizer file: the vocabulary and the merges of a byte-level BPE.
#pragma once

#include <string>
#include <unordered_set>

#include "base/status.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/merges.h"
#include "tokenizer/vocabulary.h"

namespace picchio {

struct BpeModel {
  Vocabulary vocabulary;  // Findable: what a piece of text can become.
  Merges merges;
  bool ignore_merges;  // A piece that is a token as a whole is that token, merges or not.
};

// Reads the object `fields`. The tokens written as in `special` get their ids, but are not
// findable: no piece of text becomes one. What is accepted is in tokenizer_file.h.
Result<BpeModel> ReadBpeModel(JsonFields fields, const std::unordered_set<std::string>& special);

}  // namespace picchio
