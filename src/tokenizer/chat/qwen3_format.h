// Qwen3's format, as its published templates render it.
//
//   <|im_start|>ROLE\nCONTENT<|im_end|>\n
//
// The first system message, and what tools there are, open the conversation. An assistant's
// reasoning stands in <think>...</think> before its content, tool calls in <tool_call>...
// </tool_call> behind it; answers of tools are a user's message, all that follow one another in
// one. A developer's message, which the templates would leave out without a word, is a system
// message.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tokenizer/chat/chat_format.h"

namespace picchio {

class Qwen3Format final : public ChatFormat {
 public:
  enum class Kind : uint8_t {
    kSwitchable,  // Qwen3: the model opens <think> itself; with thinking off the prompt ends in an
                  // empty block.
    kThinking2507,  // The prompt opens <think>.
    kInstruct2507,  // No reasoning; an assistant's content is repeated as it was.
  };

  explicit Qwen3Format(Kind kind) : kind_(kind) {}

  std::string_view name() const override;
  Thinking thinking() const override;
  // But for kInstruct2507: the reasoning of turns before the last question of the user is left out,
  // so that such a turn's tokens change once, when the next question comes. A message that holds
  // nothing but <tool_response>...</tool_response> is no question.
  Result<Prompt> Render(const ChatRequest& request) const override;
  std::unique_ptr<ChatParser> NewParser(const ChatOptions& options) const override;
  std::span<const std::string_view> stop_tokens() const override;

 private:
  void RenderAssistant(const ChatMessage& message, bool after_question, bool is_last,
                       Prompt& prompt) const;

  Kind kind_;
};

}  // namespace picchio
