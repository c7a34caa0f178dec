#include "tokenizer/chat/qwen3_format.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tokenizer/chat/qwen3_parser.h"
#include "tokenizer/chat/qwen3_tokens.h"

namespace picchio {
namespace {

constexpr std::array<std::string_view, 2> kQwen3StopTokens = {qwen3::kEnd, qwen3::kEndOfText};

std::string_view WithoutLeadingLineEnds(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  return text;
}

std::string_view WithoutTrailingLineEnds(std::string_view text) {
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

// What stands before the first `mark`; all where there is none.
std::string_view Before(std::string_view text, std::string_view mark) {
  return text.substr(0, text.find(mark));
}

// What stands behind the last `mark`; all where there is none.
std::string_view Behind(std::string_view text, std::string_view mark) {
  const size_t at = text.rfind(mark);
  return at == text.npos ? text : text.substr(at + mark.size());
}

bool IsSystem(const ChatMessage& message) {
  return message.role == ChatRole::kSystem || message.role == ChatRole::kDeveloper;
}

bool IsQuestion(const ChatMessage& message) {
  return message.role == ChatRole::kUser && !(message.content.starts_with(qwen3::kResponse) &&
                                              message.content.ends_with(qwen3::kEndResponse));
}

// The index of the last question; that of the last message where there is none.
size_t LastQuestion(const std::vector<ChatMessage>& messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    if (IsQuestion(messages[i])) return i;
  }
  return messages.size() - 1;
}

void RenderTools(const std::vector<ChatTool>& tools, Prompt& prompt) {
  prompt.Text(
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
      "You are provided with function signatures within <tools></tools> XML tags:\n<tools>");
  for (const ChatTool& tool : tools) {
    prompt.Text("\n").Text(PrintJson(tool.definition, JsonDialect::kPython));
  }
  prompt
      .Text(
          "\n</tools>\n\nFor each function call, return a json object with function name and "
          "arguments within ")
      .Token(qwen3::kCall)
      .Token(qwen3::kEndCall)
      .Text(" XML tags:\n")
      .Token(qwen3::kCall)
      .Text("\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n")
      .Token(qwen3::kEndCall);
}

}  // namespace

std::string_view Qwen3Format::name() const {
  switch (kind_) {
    case Kind::kThinking2507:
      return "qwen3-thinking-2507";
    case Kind::kInstruct2507:
      return "qwen3-instruct-2507";
    default:
      return "qwen3";
  }
}

ChatFormat::Thinking Qwen3Format::thinking() const {
  switch (kind_) {
    case Kind::kThinking2507:
      return Thinking::kAlways;
    case Kind::kInstruct2507:
      return Thinking::kNever;
    default:
      return Thinking::kSwitchable;
  }
}

std::span<const std::string_view> Qwen3Format::stop_tokens() const { return kQwen3StopTokens; }

void Qwen3Format::RenderAssistant(const ChatMessage& message, bool after_question, bool is_last,
                                  Prompt& prompt) const {
  std::string_view content = message.content;
  std::string_view reasoning;
  const bool reasons = kind_ != Kind::kInstruct2507;
  if (message.reasoning) {
    reasoning = *message.reasoning;
  } else if (reasons && content.find(qwen3::kEndThink) != content.npos) {
    const std::string_view before = WithoutTrailingLineEnds(Before(content, qwen3::kEndThink));
    reasoning = WithoutLeadingLineEnds(Behind(before, qwen3::kThink));
    content = WithoutLeadingLineEnds(Behind(content, qwen3::kEndThink));
  }
  prompt.Token(qwen3::kStart).Text("assistant\n");
  if (reasons && after_question && (is_last || !reasoning.empty())) {
    prompt.Token(qwen3::kThink).Text("\n");
    prompt.Text(WithoutLeadingLineEnds(WithoutTrailingLineEnds(reasoning)));
    prompt.Text("\n").Token(qwen3::kEndThink).Text("\n\n").Text(WithoutLeadingLineEnds(content));
  } else {
    prompt.Text(content);
  }
  bool needs_line_end = !content.empty();
  for (const ChatToolCall& call : message.tool_calls) {
    if (std::exchange(needs_line_end, true)) prompt.Text("\n");
    prompt.Token(qwen3::kCall).Text("\n{\"name\": \"").Text(call.name).Text("\", \"arguments\": ");
    prompt.Text(call.arguments).Text("}\n").Token(qwen3::kEndCall);
  }
  prompt.Token(qwen3::kEnd).Text("\n");
}

Result<Prompt> Qwen3Format::Render(const ChatRequest& request) const {
  const std::vector<ChatMessage>& messages = request.messages;
  if (messages.empty()) {
    return Error(Code::kInvalidArgument, "a conversation without messages, expected one or more");
  }
  Prompt prompt;
  const bool begins_with_system = IsSystem(messages.front());
  if (begins_with_system || !request.tools.empty()) {
    prompt.Token(qwen3::kStart).Text("system\n");
    if (begins_with_system) prompt.Text(messages.front().content);
    if (!request.tools.empty()) {
      if (begins_with_system) prompt.Text("\n\n");
      RenderTools(request.tools, prompt);
    }
    prompt.Token(qwen3::kEnd).Text("\n");
  }

  const size_t last_question = LastQuestion(messages);
  for (size_t i = begins_with_system ? 1 : 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    switch (message.role) {
      case ChatRole::kSystem:
      case ChatRole::kDeveloper:
      case ChatRole::kUser:
        prompt.Token(qwen3::kStart).Text(IsSystem(message) ? "system\n" : "user\n");
        prompt.Text(message.content).Token(qwen3::kEnd).Text("\n");
        break;
      case ChatRole::kAssistant:
        RenderAssistant(message, i > last_question, i + 1 == messages.size(), prompt);
        break;
      case ChatRole::kTool:
        if (i == 0 || messages[i - 1].role != ChatRole::kTool) {
          prompt.Token(qwen3::kStart).Text("user");
        }
        prompt.Text("\n").Token(qwen3::kResponse).Text("\n").Text(message.content);
        prompt.Text("\n").Token(qwen3::kEndResponse);
        if (i + 1 == messages.size() || messages[i + 1].role != ChatRole::kTool) {
          prompt.Token(qwen3::kEnd).Text("\n");
        }
        break;
    }
  }
  if (!request.options.add_generation_prompt) return prompt;
  prompt.Token(qwen3::kStart).Text("assistant\n");
  if (kind_ == Kind::kThinking2507) {
    prompt.Token(qwen3::kThink).Text("\n");
  } else if (kind_ == Kind::kSwitchable && !request.options.thinking) {
    prompt.Token(qwen3::kThink).Text("\n\n").Token(qwen3::kEndThink).Text("\n\n");
  }
  return prompt;
}

std::unique_ptr<ChatParser> Qwen3Format::NewParser(const ChatOptions& options) const {
  return std::make_unique<Qwen3Parser>(kind_ == Kind::kThinking2507 &&
                                       options.add_generation_prompt);
}

}  // namespace picchio
