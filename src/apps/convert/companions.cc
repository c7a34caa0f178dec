#include "apps/convert/companions.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/foreign_content.h"
#include "base/units.h"
#include "model/generation_config.h"
#include "tokenizer/tokenizer.h"

namespace picchio {
namespace {

constexpr std::array<std::string_view, 10> kNames = {"config.json",
                                                     "generation_config.json",
                                                     "tokenizer.json",
                                                     "tokenizer_config.json",
                                                     "special_tokens_map.json",
                                                     "added_tokens.json",
                                                     "vocab.json",
                                                     "merges.txt",
                                                     "chat_template.jinja",
                                                     "LICENSE"};

constexpr uint64_t kMaxCompanionBytes = 256_MiB;  // The largest published tokenizer.json has 28 MB.

}  // namespace

Result<Companions> ReadCompanions(const Path& checkpoint_folder, const ModelConfig& config) {
  Companions companions;
  for (const std::string_view name : kNames) {
    const Path path = checkpoint_folder / name;
    if (!SomethingExists(path)) continue;
    PICCHIO_ASSIGN_OR_RETURN(std::string bytes, ReadFileToString(path, kMaxCompanionBytes));
    PICCHIO_RETURN_IF_ERROR(CheckNotForeign(bytes.substr(0, 64), PathText(path)));
    companions.files.push_back({std::string(name), std::move(bytes)});
  }
  PICCHIO_RETURN_IF_ERROR(GenerationConfig::Load(checkpoint_folder, config.vocab_size).status());

  const Path tokenizer_path = checkpoint_folder / "tokenizer.json";
  if (!SomethingExists(tokenizer_path)) {
    companions.notes.push_back(
        "the checkpoint has no tokenizer.json: the model will take token ids only");
    return companions;
  }
  PICCHIO_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(tokenizer_path));
  PICCHIO_RETURN_IF_ERROR(tokenizer.CheckFitsVocabulary(config.vocab_size));
  return companions;
}

}  // namespace picchio
