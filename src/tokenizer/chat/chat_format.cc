#include "tokenizer/chat/chat_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/printable.h"
#include "tokenizer/chat/harmony_format.h"
#include "tokenizer/chat/qwen3_format.h"
#include "tokenizer/tokenizer.h"

namespace picchio {

Result<std::vector<int32_t>> ChatFormat::StopIds(const Tokenizer& tokenizer) const {
  std::vector<int32_t> ids;
  for (const std::string_view token : stop_tokens()) {
    const std::optional<int32_t> id = tokenizer.AddedTokenId(token);
    if (!id) {
      return Error(Code::kUnsupported,
                   "the tokenizer has no token {}, which ends an answer in the chat format {}",
                   token, name());
    }
    ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::span<const ChatFormat* const> ChatFormats() {
  static const Qwen3Format qwen3(Qwen3Format::Kind::kSwitchable);
  static const Qwen3Format thinking(Qwen3Format::Kind::kThinking2507);
  static const Qwen3Format instruct(Qwen3Format::Kind::kInstruct2507);
  static const HarmonyFormat harmony;
  static const ChatFormat* const formats[] = {&qwen3, &thinking, &instruct, &harmony};
  return formats;
}

Result<const ChatFormat*> ChatFormatNamed(std::string_view name) {
  std::string names;
  for (const ChatFormat* format : ChatFormats()) {
    if (format->name() == name) return format;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", format->name());
  }
  return Error(Code::kInvalidArgument, "no chat format {}, expected one of {}", Quoted(name),
               names);
}

}  // namespace picchio
