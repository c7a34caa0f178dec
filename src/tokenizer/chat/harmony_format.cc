#include "tokenizer/chat/harmony_format.h"

#include <array>
#include <utility>

#include "base/printable.h"
#include "tokenizer/chat/harmony_parser.h"

namespace picchio {
namespace {

constexpr std::array<std::string_view, 3> kHarmonyStopTokens = {harmony::kReturn, harmony::kCall,
                                                                harmony::kEndOfText};

std::string FunctionOf(const std::string& name) {
  return std::string(harmony::kFunctions) + "." + name;
}

void AddAssistant(const ChatMessage& message, std::vector<HarmonyMessage>& out) {
  const bool reasons = message.reasoning && !message.reasoning->empty();
  const bool calls = !message.tool_calls.empty();
  if (reasons) out.push_back({harmony::kAssistant, {}, harmony::kAnalysis, {}, *message.reasoning});
  // A turn that says nothing at all is still a turn.
  if (!message.content.empty() || (!calls && !reasons)) {
    out.push_back({harmony::kAssistant,
                   {},
                   calls ? harmony::kCommentary : harmony::kFinal,
                   {},
                   message.content});
  }
  for (const ChatToolCall& call : message.tool_calls) {
    out.push_back({harmony::kAssistant, FunctionOf(call.name), harmony::kCommentary,
                   harmony::kJsonType, call.arguments});
  }
}

// The function that the tool's message `idx` answers for.
Result<std::string> AnsweringFunction(const std::vector<ChatMessage>& messages, size_t idx) {
  const ChatMessage& answer = messages[idx];
  const ChatToolCall* last = nullptr;
  for (size_t i = 0; i < idx; ++i) {
    for (const ChatToolCall& call : messages[i].tool_calls) {
      if (!answer.tool_call_id.empty() && call.id == answer.tool_call_id) return call.name;
      last = &call;
    }
  }
  if (!answer.name.empty()) return answer.name;
  if (!answer.tool_call_id.empty() || last == nullptr) {
    return Error(Code::kInvalidArgument,
                 "messages[{}]: a tool's answer to the call {}, which no message before it makes",
                 idx, Quoted(answer.tool_call_id));
  }
  return last->name;
}

}  // namespace

std::span<const std::string_view> HarmonyFormat::stop_tokens() const { return kHarmonyStopTokens; }

Result<HarmonyConversation> HarmonyConversationOf(const ChatRequest& request) {
  const std::vector<ChatMessage>& messages = request.messages;
  HarmonyConversation conversation;
  conversation.system.emplace();
  conversation.system->date = request.options.date;
  conversation.system->effort = request.options.effort;

  const auto instructs = [](const ChatMessage& message) {
    return message.role == ChatRole::kSystem || message.role == ChatRole::kDeveloper;
  };
  HarmonyDeveloper developer;
  size_t first = 0;
  for (; first < messages.size() && instructs(messages[first]); ++first) {
    const std::string& text = messages[first].content;
    if (text.empty()) continue;
    developer.instructions =
        developer.instructions ? *developer.instructions + "\n\n" + text : text;
  }
  developer.functions = request.tools;
  if (developer.instructions || !developer.functions.empty()) {
    conversation.developer = std::move(developer);
  }

  std::vector<HarmonyMessage>& out = conversation.messages;
  for (size_t i = first; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    switch (message.role) {
      case ChatRole::kSystem:
      case ChatRole::kDeveloper:
        out.push_back({harmony::kDeveloper, {}, {}, {}, HarmonyInstructions(message.content)});
        break;
      case ChatRole::kUser:
        out.push_back({harmony::kUser, {}, {}, {}, message.content});
        break;
      case ChatRole::kAssistant:
        AddAssistant(message, out);
        break;
      case ChatRole::kTool: {
        PICCHIO_ASSIGN_OR_RETURN(const std::string name, AnsweringFunction(messages, i));
        out.push_back(
            {FunctionOf(name), harmony::kAssistant, harmony::kCommentary, {}, message.content});
        break;
      }
    }
  }
  DropFinishedAnalysis(out);
  return conversation;
}

Result<Prompt> HarmonyFormat::Render(const ChatRequest& request) const {
  if (request.messages.empty()) {
    return Error(Code::kInvalidArgument, "a conversation without messages, expected one or more");
  }
  PICCHIO_ASSIGN_OR_RETURN(const HarmonyConversation conversation, HarmonyConversationOf(request));
  return RenderHarmony(conversation, request.options.add_generation_prompt);
}

std::unique_ptr<ChatParser> HarmonyFormat::NewParser(const ChatOptions&) const {
  return std::make_unique<HarmonyParser>();
}

}  // namespace picchio
