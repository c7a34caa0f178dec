// A conversation as programs hold it, in the terms of OpenAI's API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/chat/chat_tool.h"

namespace picchio {

enum class ChatRole : uint8_t { kSystem, kDeveloper, kUser, kAssistant, kTool };

// A call that the model made.
struct ChatToolCall {
  std::string id;         // By which an answer names it; no template prints it.
  std::string name;       // Of the function.
  std::string arguments;  // JSON as the model wrote it, to the byte: so a turn that is rendered
                          // again gives the tokens that are in the key/value cache already.
};

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::string content = {};
  // What follows is empty where the role does not have it.
  std::optional<std::string> reasoning = {};  // kAssistant. Without it, a template that looks for
                                              // reasoning within the content does so.
  std::vector<ChatToolCall> tool_calls = {};  // kAssistant.
  std::string tool_call_id = {};              // kTool: the call that is answered.
  std::string name = {};                      // kTool: the function, where the id is not given.
};

enum class ReasoningEffort : uint8_t { kLow, kMedium, kHigh };

// A format that has no use for an option passes it over, as its template does.
struct ChatOptions {
  bool thinking = true;               // Off: the model is led past its reasoning where it can be.
  bool add_generation_prompt = true;  // Ends where the model's answer begins.
  ReasoningEffort effort = ReasoningEffort::kMedium;
  std::string date;  // Today, "2025-06-28", for models that are told; empty: not told.
};

struct ChatRequest {
  std::vector<ChatMessage> messages;
  std::vector<ChatTool> tools;
  ChatOptions options;
};

}  // namespace picchio
