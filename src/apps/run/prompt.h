// Where a prompt comes from: the command line, a file, ids, standard input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "tokenizer/tokenizer.h"

namespace picchio {

struct PromptSource {
  std::optional<std::string> text{};
  std::string text_file{};
  std::string ids_file{};
};

// The ids of the prompt; without any source, of what standard input holds. Refuses what is empty or
// not UTF-8, and text where the model has no tokenizer (null).
Result<std::vector<int32_t>> ReadPrompt(const PromptSource& source, const Tokenizer* tokenizer);

// Decimal ids apart by white space or commas, in brackets or not. Fails naming the first word that
// is no id of 31 bits.
Result<std::vector<int32_t>> ParseIds(std::string_view text, std::string_view where);

}  // namespace picchio
