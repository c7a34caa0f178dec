#include "tokenizer/chat/chat_parser.h"

#include <optional>
#include <utility>

#include "tokenizer/tokenizer.h"

namespace picchio {

ChatTokenStream::ChatTokenStream(const Tokenizer& tokenizer, std::unique_ptr<ChatParser> parser)
    : tokenizer_(&tokenizer), parser_(std::move(parser)), decoder_(tokenizer) {
  for (const std::string_view token : parser_->control_tokens()) {
    if (const std::optional<int32_t> id = tokenizer.AddedTokenId(token)) controls_[*id] = token;
  }
}

std::vector<ChatEvent> ChatTokenStream::Push(int32_t id) {
  std::vector<ChatEvent> events;
  const auto control = controls_.find(id);
  if (control == controls_.end() && !tokenizer_->IsSpecial(id)) {
    const std::string text = decoder_.Push(id);
    if (!text.empty()) parser_->PushText(text, events);
    return events;
  }
  // Nothing can complete a character over a control token.
  const std::string rest = decoder_.Finish();
  if (!rest.empty()) parser_->PushText(rest, events);
  parser_->PushControl(control == controls_.end() ? tokenizer_->TokenBytes(id) : control->second,
                       events);
  return events;
}

std::vector<ChatEvent> ChatTokenStream::Finish() {
  std::vector<ChatEvent> events;
  const std::string rest = decoder_.Finish();
  if (!rest.empty()) parser_->PushText(rest, events);
  parser_->Finish(events);
  return events;
}

}  // namespace picchio
