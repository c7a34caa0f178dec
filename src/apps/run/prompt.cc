#include "apps/run/prompt.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>

#include "apps/standard_input.h"
#include "base/printable.h"
#include "base/units.h"

namespace picchio {
namespace {

constexpr uint64_t kMaxPromptBytes = 256_MiB;

Result<std::vector<int32_t>> Encode(std::string_view text, std::string_view where,
                                    const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) {
    return Error(Code::kInvalidArgument,
                 "the model has no tokenizer.json: give the prompt as token ids (--ids FILE)");
  }
  if (text.empty()) return Error(Code::kInvalidArgument, "{} is empty: nothing to go on", where);
  // Whoever writes a raw prompt writes its scaffold too, so control tokens count as such.
  Result<std::vector<int32_t>> ids = tokenizer->Encode(text, SpecialTokens::kRecognise);
  if (!ids) return ids.error().WithContext(where);
  return ids;
}

}  // namespace

Result<std::vector<int32_t>> ParseIds(std::string_view text, std::string_view where) {
  constexpr std::string_view kSeparators = " \t\r\n,[]";
  std::vector<int32_t> ids;
  while (true) {
    const size_t begin = text.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kSeparators));
    int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0) {
      return Error(Code::kInvalidArgument, "{}: word {} is {}, expected a token id", where,
                   ids.size() + 1, Quoted(word));
    }
    ids.push_back(id);
    text.remove_prefix(word.size());
  }
  if (ids.empty()) return Error(Code::kInvalidArgument, "{} holds no token ids", where);
  return ids;
}

Result<std::vector<int32_t>> ReadPrompt(const PromptSource& source, const Tokenizer* tokenizer) {
  if (source.text.has_value()) return Encode(*source.text, "the prompt", tokenizer);
  if (!source.text_file.empty()) {
    PICCHIO_ASSIGN_OR_RETURN(const std::string text,
                             ReadFileToString(source.text_file, kMaxPromptBytes));
    return Encode(text, source.text_file, tokenizer);
  }
  if (!source.ids_file.empty()) {
    PICCHIO_ASSIGN_OR_RETURN(const std::string text,
                             ReadFileToString(source.ids_file, kMaxPromptBytes));
    return ParseIds(text, source.ids_file);
  }
  if (isatty(STDIN_FILENO) == 1) {
    std::fputs("Type the prompt; Ctrl-D at the beginning of a line ends it.\n", stderr);
  }
  PICCHIO_ASSIGN_OR_RETURN(const std::string text, ReadStandardInput(kMaxPromptBytes));
  return Encode(text, "standard input", tokenizer);
}

}  // namespace picchio
