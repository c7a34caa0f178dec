#include "tokenizer/chat/harmony_conversation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace picchio {
namespace {

std::string_view NameOf(ReasoningEffort effort) {
  switch (effort) {
    case ReasoningEffort::kLow:
      return "low";
    case ReasoningEffort::kHigh:
      return "high";
    default:
      return "medium";
  }
}

void AddSection(std::string_view section, std::string& text) {
  if (!text.empty()) text += "\n\n";
  text += section;
}

std::string SystemText(const HarmonySystem& system, bool has_functions) {
  std::string top = system.model_identity;
  const auto add_line = [&](std::string_view label, const std::string& value) {
    if (!value.empty()) top += fmt::format("{}{}: {}", top.empty() ? "" : "\n", label, value);
  };
  add_line("Knowledge cutoff", system.knowledge_cutoff);
  add_line("Current date", system.date);

  std::string text = top;
  AddSection(fmt::format("Reasoning: {}", NameOf(system.effort)), text);
  if (!system.builtin_tools.empty()) AddSection(HarmonyToolsSection(system.builtin_tools), text);
  if (!system.channels.empty()) {
    AddSection(fmt::format("# Valid channels: {}.", fmt::join(system.channels, ", ")), text);
    if (system.channel_required) text += " Channel must be included for every message.";
    if (has_functions) {
      text += "\nCalls to these tools must go to the commentary channel: 'functions'.";
    }
  }
  return text;
}

std::string DeveloperText(const HarmonyDeveloper& developer) {
  std::string text;
  if (developer.instructions) text = HarmonyInstructions(*developer.instructions);
  if (!developer.functions.empty()) {
    AddSection(HarmonyToolsSection({{harmony::kFunctions, {}, developer.functions}}), text);
  }
  return text;
}

void RenderMessage(const HarmonyMessage& message, Prompt& prompt) {
  prompt.Token(harmony::kStart).Text(message.author);
  if (!message.recipient.empty()) prompt.Text(" to=").Text(message.recipient);
  if (!message.channel.empty()) prompt.Token(harmony::kChannel).Text(message.channel);
  if (!message.content_type.empty()) {
    std::string_view type = message.content_type;
    prompt.Text(" ");
    if (type.starts_with(harmony::kConstrain)) {
      prompt.Token(harmony::kConstrain);
      type.remove_prefix(harmony::kConstrain.size());
    }
    prompt.Text(type);
  }
  prompt.Token(harmony::kMessage).Text(message.content);
  const bool is_call = message.author == harmony::kAssistant && !message.recipient.empty();
  prompt.Token(is_call ? harmony::kCall : harmony::kEnd);
}

}  // namespace

std::string HarmonyInstructions(const std::string& instructions) {
  return "# Instructions\n\n" + instructions;
}

void DropFinishedAnalysis(std::vector<HarmonyMessage>& messages) {
  bool is_before_question = false;  // Walking from the end: a message of the user came by.
  auto finished = messages.rbegin();
  for (; finished != messages.rend(); ++finished) {
    is_before_question |= finished->author == harmony::kUser;
    if (is_before_question && finished->channel == harmony::kFinal) break;
  }
  const auto end = finished.base();
  messages.erase(std::remove_if(messages.begin(), end,
                                [](const HarmonyMessage& message) {
                                  return message.channel == harmony::kAnalysis;
                                }),
                 end);
}

Prompt RenderHarmony(const HarmonyConversation& conversation, bool add_generation_prompt) {
  Prompt prompt;
  const bool has_functions = conversation.developer && !conversation.developer->functions.empty();
  if (conversation.system) {
    RenderMessage({harmony::kSystem, {}, {}, {}, SystemText(*conversation.system, has_functions)},
                  prompt);
  }
  if (conversation.developer) {
    RenderMessage({harmony::kDeveloper, {}, {}, {}, DeveloperText(*conversation.developer)},
                  prompt);
  }
  for (const HarmonyMessage& message : conversation.messages) RenderMessage(message, prompt);
  if (add_generation_prompt) prompt.Token(harmony::kStart).Text(harmony::kAssistant);
  return prompt;
}

}  // namespace picchio
