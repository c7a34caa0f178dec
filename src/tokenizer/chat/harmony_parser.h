// The answers of gpt-oss: messages in the Harmony format, the first of which has its author
// already.
//
// The analysis channel is reasoning, a message to somebody a call, everything else the answer.
// Models deviate from the format, the more the higher the temperature, and the turn goes on:
//
//   missing                        what happens
//   <|channel|>, or unknown        the message is the answer, or a call if it has a recipient
//   <|message|>                    what stands behind the header's known words is the content
//   <|end|>                        the message ends where <|start|> or <|channel|> begins another
//   <|start|>                      a header begins behind <|end|> all the same
//   <|call|> and JSON at the end   cut: the arguments come out as content, to be seen
//
// A message of another author than the assistant, which a model makes up, is passed on as
// reasoning. Messages of one kind are parted by an empty line.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat/chat_parser.h"
#include "tokenizer/chat/harmony_header.h"

namespace picchio {

class HarmonyParser final : public ChatParser {
 public:
  std::span<const std::string_view> control_tokens() const override;
  void PushText(std::string_view text, std::vector<ChatEvent>& events) override;
  void PushControl(std::string_view token, std::vector<ChatEvent>& events) override;
  void Finish(std::vector<ChatEvent>& events) override;

 private:
  enum class Body : uint8_t { kNone, kReasoning, kContent, kCall };  // kNone: within a header.

  void BeginHeader(bool after_start);
  void BeginBody(HarmonyHeader header);
  // Ends a header that no <|message|> follows.
  void EndHeader(std::vector<ChatEvent>& events);
  void EndBody(bool is_cut, std::vector<ChatEvent>& events);
  void Emit(std::string_view text, std::vector<ChatEvent>& events);

  Body body_ = Body::kNone;
  bool after_start_ = false;  // The header has an author.
  std::string header_text_;
  HarmonyHeader header_;
  std::string call_;    // The content of a call.
  bool is_new_ = true;  // No text of this message came out yet.
  bool has_reasoning_ = false;
  bool has_content_ = false;
};

}  // namespace picchio
