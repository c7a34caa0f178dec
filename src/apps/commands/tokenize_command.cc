#include <cstdio>
#include <memory>
#include <string>

#include "apps/commands/command.h"
#include "apps/commands/flag_checks.h"
#include "apps/standard_input.h"
#include "base/json.h"
#include "base/printable.h"
#include "tokenizer/tokenizer.h"

namespace picchio {
namespace {

struct TokenizeFlags {
  std::string model;
  std::string text;
  std::string file;
  bool as_text = false;
  bool ids_only = false;
  bool json = false;
};

constexpr uint64_t kMaxTextBytes = uint64_t{256} << 20;

Result<std::string> TextOf(const TokenizeFlags& flags, bool text_given) {
  if (text_given) return flags.text;
  if (!flags.file.empty()) return ReadFileToString(flags.file, kMaxTextBytes);
  return ReadStandardInput(kMaxTextBytes);
}

Status Run(const TokenizeFlags& flags, bool text_given) {
  Path path = flags.model;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) path /= "tokenizer.json";
  PICCHIO_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(path));
  PICCHIO_ASSIGN_OR_RETURN(const std::string text, TextOf(flags, text_given));
  PICCHIO_ASSIGN_OR_RETURN(
      const std::vector<int32_t> ids,
      tokenizer.Encode(text, flags.as_text ? SpecialTokens::kAsText : SpecialTokens::kRecognise));
  if (flags.json) {
    std::printf("%s\n", Json{{"ids", ids}, {"tokens", ids.size()}}.dump().c_str());
    return Status::Ok();
  }
  for (const int32_t id : ids) {
    if (flags.ids_only) {
      std::printf("%d\n", id);
    } else {
      std::printf("%8d  %s\n", id, QuotedBytes(tokenizer.TokenBytes(id)).c_str());
    }
  }
  return Status::Ok();
}

}  // namespace

void AddTokenizeCommand(Command& commands) {
  auto flags = std::make_shared<TokenizeFlags>();
  Command command = commands.Sub("tokenize", "Show the token ids and pieces of a text");
  command.Option("MODEL", flags->model, "Folder of a model or checkpoint, or a tokenizer.json")
      .Required()
      .Check(NotEmpty());
  Flag text = command.Option("-p,--prompt", flags->text, "The text");
  command.Option("-f,--file", flags->file, "File that holds the text")
      .Excludes(text)
      .Check(NotEmpty());
  command.Switch("--as-text", flags->as_text,
                 "Take control tokens in the text as the characters they are written with");
  command.Switch("--ids", flags->ids_only, "Ids only, one a line (what run --ids reads)");
  command.Switch("--json", flags->json, "Ids as JSON");
  command.Footer(
      "Without -p and -f the text is read from standard input.\n\n"
      "Examples:\n"
      "  picchio tokenize ~/models/qwen3-30b -p \"Hello, world\"\n"
      "  picchio tokenize ~/models/qwen3-30b --ids < prompt.txt > prompt.ids");
  command.Run([flags, text] { return Run(*flags, text.given()); });
}

}  // namespace picchio
