// The answers of Qwen3 models.
//
// Reasoning is what stands between <think> and </think>, a call is the JSON object between
// <tool_call> and </tool_call>; line ends that belong to this scaffold are not passed on, so that
// an answer that is rendered again has the line ends that the model wrote. A mark that closes
// nothing is passed over; one that is missing is taken for written where the next one opens, or at
// the end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat/chat_parser.h"

namespace picchio {

class Qwen3Parser final : public ChatParser {
 public:
  // `in_reasoning`: the prompt ended within <think>.
  explicit Qwen3Parser(bool in_reasoning) : in_reasoning_(in_reasoning) {
    skip_line_ends_ = in_reasoning;
  }

  std::span<const std::string_view> control_tokens() const override;
  void PushText(std::string_view text, std::vector<ChatEvent>& events) override;
  void PushControl(std::string_view token, std::vector<ChatEvent>& events) override;
  void Finish(std::vector<ChatEvent>& events) override;

 private:
  void Emit(std::string_view text, std::vector<ChatEvent>& events);
  void EndCall(bool is_closed, std::vector<ChatEvent>& events);

  bool in_reasoning_;
  bool in_call_ = false;
  bool skip_line_ends_ = false;  // Until something else comes.
  bool has_content_ = false;
  std::string held_;  // Line ends that may turn out to be scaffold.
  std::string call_;  // What came since <tool_call>.
};

}  // namespace picchio
