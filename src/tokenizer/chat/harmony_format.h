// gpt-oss's format, Harmony, for conversations in the terms of OpenAI's API.
//
// System and developer messages before the first other one are the developer's instructions; a
// later one is a developer message in its place. An assistant's reasoning goes to the analysis
// channel, its content to the final one, or, where calls follow, as a preamble to the commentary
// channel; a call is a message to functions.NAME, a tool's answer one from it.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "tokenizer/chat/chat_format.h"
#include "tokenizer/chat/harmony_conversation.h"

namespace picchio {

class HarmonyFormat final : public ChatFormat {
 public:
  std::string_view name() const override { return "harmony"; }
  Thinking thinking() const override { return Thinking::kAlways; }  // See ChatOptions::effort.
  Result<Prompt> Render(const ChatRequest& request) const override;
  std::unique_ptr<ChatParser> NewParser(const ChatOptions& options) const override;
  std::span<const std::string_view> stop_tokens() const override;
};

// The conversation that Render renders: the analysis of finished turns is left out. Refuses a
// tool's message of which neither its id nor its name nor a call before it tells the function.
Result<HarmonyConversation> HarmonyConversationOf(const ChatRequest& request);

}  // namespace picchio
