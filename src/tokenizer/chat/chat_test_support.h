// Conversations of the reference data, for the tests of the chat formats.
#pragma once

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/test_support.h"
#include "tokenizer/chat/chat_message.h"
#include "tokenizer/chat/chat_parser.h"
#include "tokenizer/chat/json_value.h"
#include "tokenizer/tokenizer.h"

namespace picchio {

// A published tokenizer, "qwen3" or "gpt_oss", read once for all tests of a program.
inline const Tokenizer& PublishedTokenizer(const std::string& name) {
  static std::map<std::string, Tokenizer> tokenizers;
  if (!tokenizers.contains(name)) {
    auto loaded = Tokenizer::Load(BuildFile("tokenizers/" + name + "/tokenizer.json"));
    EXPECT_OK(loaded);
    tokenizers.emplace(name, std::move(loaded).value());
  }
  return tokenizers.at(name);
}

inline JsonValue JsonOf(std::string_view text) {
  auto value = ParseJsonInOrder(text, "test data");
  EXPECT_OK(value);
  return std::move(value).value();
}

inline JsonValue JsonFile(std::string_view relative) { return JsonOf(ReadAll(TestData(relative))); }

inline std::vector<JsonValue> JsonLines(std::string_view relative) {
  std::vector<JsonValue> rows;
  std::istringstream lines(ReadAll(TestData(relative)));
  for (std::string line; std::getline(lines, line);) rows.push_back(JsonOf(line));
  return rows;
}

// A member that is a string; empty where there is none.
inline std::string TextOf(const JsonValue& object, std::string_view name) {
  const std::string* text = object.FindString(name);
  return text == nullptr ? "" : *text;
}

inline bool FlagOf(const JsonValue& object, std::string_view name, bool fallback) {
  const JsonValue* value = object.Find(name);
  return value == nullptr ? fallback : value->kind == JsonValue::Kind::kTrue;
}

// A message as a request has it; arguments that are no string are written as a template would.
inline ChatMessage MessageOf(const JsonValue& json) {
  constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};
  ChatMessage message;
  for (size_t i = 0; i < std::size(kRoles); ++i) {
    if (TextOf(json, "role") == kRoles[i]) message.role = static_cast<ChatRole>(i);
  }
  message.content = TextOf(json, "content");
  message.name = TextOf(json, "name");
  message.tool_call_id = TextOf(json, "tool_call_id");
  if (const std::string* reasoning = json.FindString("reasoning_content")) {
    message.reasoning = *reasoning;
  }
  if (const JsonValue* calls = json.Find("tool_calls")) {
    for (const JsonValue& call : calls->items) {
      const JsonValue& function = *call.Find("function");
      const JsonValue& arguments = *function.Find("arguments");
      message.tool_calls.push_back(
          {TextOf(call, "id"), TextOf(function, "name"),
           arguments.IsString() ? arguments.text : PrintJson(arguments, JsonDialect::kPython)});
    }
  }
  return message;
}

inline std::vector<ChatMessage> MessagesOf(const JsonValue& array) {
  std::vector<ChatMessage> messages;
  for (const JsonValue& message : array.items) messages.push_back(MessageOf(message));
  return messages;
}

inline std::vector<ChatTool> ToolsOf(const JsonValue* array) {
  if (array == nullptr) return {};
  auto tools = ParseChatTools(PrintJson(*array, JsonDialect::kPython), "tools");
  EXPECT_OK(tools);
  return std::move(tools).value();
}

// Feeds a parser: what is in `controls` is a control token, the rest text, `chunk` characters a
// time.
inline std::vector<ChatEvent> ParseAnswer(ChatParser& parser, std::string_view answer,
                                          size_t chunk = 1000) {
  std::vector<ChatEvent> events;
  while (!answer.empty()) {
    std::string_view control;
    for (const std::string_view token : parser.control_tokens()) {
      if (answer.starts_with(token)) control = token;
    }
    if (!control.empty()) {
      parser.PushControl(control, events);
      answer.remove_prefix(control.size());
      continue;
    }
    size_t length = answer.size();
    for (const std::string_view token : parser.control_tokens()) {
      length = std::min(length, answer.find(token));
    }
    length = std::min(length, chunk);
    while (length < answer.size() && (answer[length] & 0xC0) == 0x80) ++length;
    parser.PushText(answer.substr(0, length), events);
    answer.remove_prefix(length);
  }
  parser.Finish(events);
  return events;
}

// Neighbours of one kind joined: what a client that adds up the pieces has.
inline std::vector<ChatEvent> Joined(const std::vector<ChatEvent>& events) {
  std::vector<ChatEvent> joined;
  for (const ChatEvent& event : events) {
    const bool goes_on = !joined.empty() && joined.back().kind == event.kind &&
                         event.kind != ChatEvent::Kind::kToolCall;
    if (goes_on) {
      joined.back().text += event.text;
    } else {
      joined.push_back(event);
    }
  }
  return joined;
}

// The events as lines, "reasoning: ...", for comparing at a glance; kEnd is checked and left out.
inline std::vector<std::string> Lines(const std::vector<ChatEvent>& events) {
  std::vector<std::string> lines;
  EXPECT_TRUE(!events.empty() && events.back().kind == ChatEvent::Kind::kEnd);
  for (const ChatEvent& event : Joined(events)) {
    switch (event.kind) {
      case ChatEvent::Kind::kReasoning:
        lines.push_back("reasoning: " + event.text);
        break;
      case ChatEvent::Kind::kContent:
        lines.push_back("content: " + event.text);
        break;
      case ChatEvent::Kind::kToolCall:
        lines.push_back("call " + event.name + ": " + event.text);
        break;
      case ChatEvent::Kind::kEnd:
        break;
    }
  }
  return lines;
}

}  // namespace picchio
