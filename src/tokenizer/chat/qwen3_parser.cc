#include "tokenizer/chat/qwen3_parser.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "tokenizer/chat/json_value.h"
#include "tokenizer/chat/qwen3_tokens.h"

namespace picchio {
namespace {

constexpr std::array<std::string_view, 7> kQwen3ControlTokens = {
    qwen3::kThink, qwen3::kEndThink, qwen3::kCall,     qwen3::kEndCall,
    qwen3::kStart, qwen3::kEnd,      qwen3::kEndOfText};

// {"name": ..., "arguments": {...}}; nothing where the text is something else.
std::optional<ChatEvent> CallOf(std::string_view text) {
  const auto json = ParseJsonInOrder(text, "tool call");
  if (!json.has_value()) return std::nullopt;
  const std::string* name = json->FindString("name");
  if (name == nullptr || name->empty()) return std::nullopt;
  ChatEvent event{ChatEvent::Kind::kToolCall, "{}", *name};
  const JsonValue* arguments = json->Find("arguments");
  if (arguments == nullptr) arguments = json->Find("parameters");  // As other families call them.
  if (arguments == nullptr) return event;
  // A string is the object encoded twice, as the API has it.
  event.text = arguments->IsString()
                   ? arguments->text
                   : std::string(text.substr(arguments->begin, arguments->end - arguments->begin));
  return event;
}

}  // namespace

std::span<const std::string_view> Qwen3Parser::control_tokens() const {
  return kQwen3ControlTokens;
}

void Qwen3Parser::Emit(std::string_view text, std::vector<ChatEvent>& events) {
  if (text.empty()) return;
  has_content_ |= !in_reasoning_;
  events.push_back({in_reasoning_ ? ChatEvent::Kind::kReasoning : ChatEvent::Kind::kContent,
                    std::string(text),
                    {}});
}

void Qwen3Parser::PushText(std::string_view text, std::vector<ChatEvent>& events) {
  if (in_call_) {
    call_ += text;
    return;
  }
  if (skip_line_ends_) text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  if (text.empty()) return;
  skip_line_ends_ = false;

  // All line ends before </think> are scaffold, but only one before <tool_call>.
  size_t num_held = text.size() - (text.find_last_not_of('\n') + 1);
  if (num_held == text.size() && in_reasoning_) {
    held_ += text;
    return;
  }
  if (!in_reasoning_) num_held = std::min<size_t>(num_held, 1);
  std::string ready = std::exchange(held_, std::string(text.substr(text.size() - num_held)));
  ready += text.substr(0, text.size() - num_held);
  Emit(ready, events);
}

void Qwen3Parser::PushControl(std::string_view token, std::vector<ChatEvent>& events) {
  if (token == qwen3::kEndCall) {
    if (in_call_) EndCall(true, events);
    return;
  }
  if (token == qwen3::kThink || token == qwen3::kEndThink) {
    if (in_call_) {
      call_ += token;
      return;
    }
    const bool opens = token == qwen3::kThink;
    if (in_reasoning_ == opens) return;
    // Line ends before <think> are an empty answer's, which no one misses.
    if (opens && has_content_) Emit(held_, events);
    held_.clear();
    in_reasoning_ = opens;
    skip_line_ends_ = true;
    return;
  }
  if (in_call_) EndCall(false, events);
  if (token == qwen3::kCall) {
    held_.clear();
    in_call_ = true;
  }
}

void Qwen3Parser::EndCall(bool is_closed, std::vector<ChatEvent>& events) {
  in_call_ = false;
  skip_line_ends_ = true;
  const std::string text = std::exchange(call_, {});
  if (auto call = CallOf(text)) {
    events.push_back(std::move(*call));
    return;
  }
  has_content_ = true;
  events.push_back(
      {ChatEvent::Kind::kContent,
       std::string(qwen3::kCall) + text + std::string(is_closed ? qwen3::kEndCall : ""),
       {}});
}

void Qwen3Parser::Finish(std::vector<ChatEvent>& events) {
  if (in_call_) EndCall(false, events);
  Emit(held_, events);
  held_.clear();
  events.push_back({ChatEvent::Kind::kEnd, {}, {}});
}

}  // namespace picchio
