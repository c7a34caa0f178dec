#include "tokenizer/chat/harmony_parser.h"

#include <array>
#include <utility>

#include "tokenizer/chat/harmony_tokens.h"
#include "tokenizer/chat/json_value.h"

namespace picchio {
namespace {

constexpr std::array<std::string_view, 8> kHarmonyControlTokens = {
    harmony::kStart, harmony::kChannel, harmony::kMessage, harmony::kConstrain,
    harmony::kEnd,   harmony::kCall,    harmony::kReturn,  harmony::kEndOfText};

// A header is a few words. What is longer is an answer without one, and is not held back.
constexpr size_t kMaxHeaderBytes = 256;

bool IsCall(const HarmonyHeader& header) {
  if (header.recipient.empty() || header.recipient == harmony::kAssistant) return false;
  return header.recipient != harmony::kUser && header.recipient != "all";
}

std::string FunctionName(const std::string& recipient) {
  const std::string prefix = std::string(harmony::kFunctions) + ".";
  return recipient.size() > prefix.size() && recipient.starts_with(prefix)
             ? recipient.substr(prefix.size())
             : recipient;
}

}  // namespace

std::span<const std::string_view> HarmonyParser::control_tokens() const {
  return kHarmonyControlTokens;
}

void HarmonyParser::BeginHeader(bool after_start) {
  body_ = Body::kNone;
  after_start_ = after_start;
  header_text_.clear();
}

void HarmonyParser::BeginBody(HarmonyHeader header) {
  header_ = std::move(header);
  header_text_.clear();
  is_new_ = true;
  const bool is_assistant = header_.author.empty() || header_.author == harmony::kAssistant;
  if (!is_assistant) {
    body_ = Body::kReasoning;
  } else if (IsCall(header_)) {
    body_ = Body::kCall;
  } else {
    body_ = header_.channel.starts_with(harmony::kAnalysis) ? Body::kReasoning : Body::kContent;
  }
}

void HarmonyParser::Emit(std::string_view text, std::vector<ChatEvent>& events) {
  if (text.empty()) return;
  if (body_ == Body::kCall) {
    call_ += text;
    return;
  }
  const bool is_reasoning = body_ == Body::kReasoning;
  bool& has_some = is_reasoning ? has_reasoning_ : has_content_;
  std::string out = std::exchange(is_new_, false) && has_some ? "\n\n" : "";
  has_some = true;
  out += text;
  events.push_back(
      {is_reasoning ? ChatEvent::Kind::kReasoning : ChatEvent::Kind::kContent, std::move(out), {}});
}

void HarmonyParser::EndHeader(std::vector<ChatEvent>& events) {
  std::string_view rest;
  const std::string text = std::exchange(header_text_, {});
  HarmonyHeader header = ParseHarmonyHeader(text, after_start_, false, rest);
  if (rest.empty() && !IsCall(header)) return;  // Nothing was said.
  BeginBody(std::move(header));
  Emit(rest, events);
}

void HarmonyParser::EndBody(bool is_cut, std::vector<ChatEvent>& events) {
  if (std::exchange(body_, Body::kNone) != Body::kCall) return;
  std::string arguments = std::exchange(call_, {});
  // Code is no JSON; whether it is whole cannot be told.
  const bool is_json =
      header_.content_type != "code" && header_.recipient.find("python") == std::string::npos;
  if (is_cut && is_json && !ParseJsonInOrder(arguments, "tool call").has_value()) {
    body_ = Body::kContent;
    Emit(arguments, events);
    body_ = Body::kNone;
    return;
  }
  if (arguments.empty()) arguments = "{}";
  events.push_back(
      {ChatEvent::Kind::kToolCall, std::move(arguments), FunctionName(header_.recipient)});
}

void HarmonyParser::PushText(std::string_view text, std::vector<ChatEvent>& events) {
  // Character by character, so that it does not matter how the text was cut.
  while (body_ == Body::kNone && !text.empty()) {
    size_t length = 1;
    while (length < text.size() && (text[length] & 0xC0) == 0x80) ++length;
    header_text_ += text.substr(0, length);
    text.remove_prefix(length);
    if (header_text_.size() > kMaxHeaderBytes) EndHeader(events);
  }
  Emit(text, events);
}

void HarmonyParser::PushControl(std::string_view token, std::vector<ChatEvent>& events) {
  if (token == harmony::kMessage) {
    if (body_ != Body::kNone) return;
    std::string_view rest;
    HarmonyHeader header = ParseHarmonyHeader(header_text_, after_start_, true, rest);
    BeginBody(std::move(header));
    return;
  }
  if (token == harmony::kConstrain) {
    if (body_ == Body::kNone) header_text_ += token;
    return;
  }
  if (token == harmony::kChannel) {
    if (body_ != Body::kNone) {
      EndBody(false, events);
      BeginHeader(false);
    }
    header_text_ += token;
    return;
  }
  if (body_ == Body::kNone) EndHeader(events);
  EndBody(false, events);
  BeginHeader(token == harmony::kStart);
}

void HarmonyParser::Finish(std::vector<ChatEvent>& events) {
  if (body_ == Body::kNone) EndHeader(events);
  EndBody(true, events);
  events.push_back({ChatEvent::Kind::kEnd, {}, {}});
}

}  // namespace picchio
