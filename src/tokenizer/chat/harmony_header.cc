#include "tokenizer/chat/harmony_header.h"

#include <algorithm>
#include <array>

#include "tokenizer/chat/harmony_tokens.h"

namespace picchio {
namespace {

constexpr std::string_view kHeaderSpace = " \t\r\n";
constexpr std::array<std::string_view, 5> kHarmonyRoles = {
    harmony::kAssistant, harmony::kUser, harmony::kSystem, harmony::kDeveloper, "tool"};
constexpr std::array<std::string_view, 3> kHarmonyChannels = {
    harmony::kAnalysis, harmony::kCommentary, harmony::kFinal};
constexpr std::array<std::string_view, 3> kHarmonyTypes = {"json", "code", "text"};

template <typename Names>
bool IsOneOf(std::string_view word, const Names& names) {
  return std::find(names.begin(), names.end(), word) != names.end();
}

void SkipSpace(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kHeaderSpace), text.size()));
}

// The word that begins `text`: up to a space or a control token.
std::string_view WordOf(std::string_view text) {
  return text.substr(0, std::min(text.find_first_of(" \t\r\n<"), text.size()));
}

// Takes `mark` and the word behind it; false where `text` does not begin with it.
bool TakeMarked(std::string_view mark, std::string_view& text, std::string& value) {
  if (!text.starts_with(mark)) return false;
  text.remove_prefix(mark.size());
  SkipSpace(text);
  const std::string_view word = WordOf(text);
  // Where the next part follows without a value between.
  if (word.starts_with("to=")) return true;
  value = word;
  text.remove_prefix(word.size());
  return true;
}

// Whether a header goes on, or ends, in `text`: a word that stands before it belongs to the header.
bool GoesOn(std::string_view text) {
  SkipSpace(text);
  return text.empty() || text.starts_with("to=") || text.starts_with(harmony::kChannel) ||
         text.starts_with(harmony::kConstrain);
}

}  // namespace

HarmonyHeader ParseHarmonyHeader(std::string_view header, bool after_start, bool is_whole,
                                 std::string_view& rest) {
  HarmonyHeader out;
  for (bool is_first = true;; is_first = false) {
    SkipSpace(header);
    const std::string_view word = WordOf(header);
    const std::string_view whole = header;
    const std::string_view behind = header.substr(word.size());
    if (std::string channel; TakeMarked(harmony::kChannel, header, channel)) {
      const size_t to = channel.find("to=");  // "commentaryto=functions.x": without the space.
      const std::string name = channel.substr(0, to);
      if (!is_whole && !name.empty() && !IsOneOf(name, kHarmonyChannels)) {
        header = whole.substr(harmony::kChannel.size());  // No channel, but the content.
        break;
      }
      out.channel = name;
      if (to != std::string::npos) out.recipient = channel.substr(to + 3);
      continue;
    }
    if (std::string type; TakeMarked(harmony::kConstrain, header, type)) {
      if (!is_whole && !IsOneOf(type, kHarmonyTypes)) {
        header = whole.substr(harmony::kConstrain.size());
        break;
      }
      out.content_type = std::string(harmony::kConstrain) + type;
      continue;
    }
    const bool is_author = after_start && is_whole && !word.empty();
    const bool is_role = IsOneOf(word, kHarmonyRoles) && (after_start || GoesOn(behind));
    if (word.starts_with("to=")) {
      out.recipient = word.substr(3);
    } else if (is_first && is_author && IsOneOf(word, kHarmonyChannels)) {
      out.channel = word;  // The author and the mark are missing.
    } else if (is_first && (is_author || is_role)) {
      out.author = word;
    } else if (is_whole && !out.channel.empty() && out.recipient.empty() &&
               word.find('.') != word.npos) {
      out.recipient = word;  // Without "to=".
    } else if (!out.recipient.empty() && out.content_type.empty() && IsOneOf(word, kHarmonyTypes)) {
      out.content_type = word;
    } else {
      break;
    }
    header = behind;
  }
  SkipSpace(header);
  rest = header;
  return out;
}

}  // namespace picchio
