// A conversation in the Harmony format's own terms, and its rendering.
//
//   <|start|>AUTHOR to=RECIPIENT<|channel|>CHANNEL <|constrain|>TYPE<|message|>CONTENT<|end|>
//
// as the openai/harmony library renders it (src/encoding.rs); a message of the assistant to
// somebody ends in <|call|>.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tokenizer/chat/chat_message.h"
#include "tokenizer/chat/harmony_tokens.h"
#include "tokenizer/chat/harmony_types.h"
#include "tokenizer/chat/prompt.h"

namespace picchio {

struct HarmonyMessage {
  std::string author;  // "user", "assistant", "developer", or a tool: "functions.get_weather".
  // Each of these empty where there is none.
  std::string recipient;
  std::string channel;
  std::string content_type;  // "<|constrain|>json", "code".
  std::string content;
};

struct HarmonySystem {
  std::string model_identity = "You are ChatGPT, a large language model trained by OpenAI.";
  std::string knowledge_cutoff = "2024-06";
  std::string date;  // Empty: no line for it.
  ReasoningEffort effort = ReasoningEffort::kMedium;
  std::vector<std::string> channels = {harmony::kAnalysis, harmony::kCommentary, harmony::kFinal};
  bool channel_required = true;
  std::vector<HarmonyNamespace> builtin_tools;  // Of the model's makers, in alphabetical order.
};

struct HarmonyDeveloper {
  std::optional<std::string> instructions;
  std::vector<ChatTool> functions;
};

struct HarmonyConversation {
  std::optional<HarmonySystem> system;
  std::optional<HarmonyDeveloper> developer;
  std::vector<HarmonyMessage> messages;
};

// "# Instructions", behind which a developer's words stand.
std::string HarmonyInstructions(const std::string& instructions);

// Leaves out the analysis of finished turns: all that comes before a final message which a message
// of the user follows. An answer in the making keeps its own, over any number of tool calls.
void DropFinishedAnalysis(std::vector<HarmonyMessage>& messages);

// `add_generation_prompt`: ends in the beginning of the assistant's header.
Prompt RenderHarmony(const HarmonyConversation& conversation, bool add_generation_prompt);

}  // namespace picchio
