// What a model says, taken apart as it comes: reasoning, answer, tool calls.
//
// Nothing that the model wrote is lost: what looks like a call and is none comes out as content.
// Only control tokens change the state, never text that looks like one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/stream_decoder.h"

namespace picchio {

class Tokenizer;

struct ChatEvent {
  enum class Kind : uint8_t {
    kReasoning,  // `text` goes on the reasoning.
    kContent,    // `text` goes on the answer.
    kToolCall,   // A whole call of the function `name`; `text` is its arguments as they were
                 // written, for most formats JSON that was checked.
    kEnd,        // Once, by Finish, as the last.
  };
  Kind kind;
  std::string text;
  std::string name;

  bool operator==(const ChatEvent&) const = default;
};

// A format's parser of one answer, from the end of the prompt on. One thread at a time.
class ChatParser {
 public:
  virtual ~ChatParser() = default;

  // The tokens that mean something to the format, as they are written.
  virtual std::span<const std::string_view> control_tokens() const = 0;

  // Whole characters of text. Events are appended.
  virtual void PushText(std::string_view text, std::vector<ChatEvent>& events) = 0;
  // One of control_tokens(), or any other special token of the tokenizer.
  virtual void PushControl(std::string_view token, std::vector<ChatEvent>& events) = 0;
  // The answer is over, whether the model ended it or it was cut.
  virtual void Finish(std::vector<ChatEvent>& events) = 0;
};

// Feeds a parser with token ids as they are sampled, stop tokens included or not. One thread at a
// time.
class ChatTokenStream {
 public:
  // The tokenizer outlives this.
  ChatTokenStream(const Tokenizer& tokenizer, std::unique_ptr<ChatParser> parser);

  // What became known with this token. Texts are valid UTF-8: a character that is spread over
  // several tokens comes when it is whole.
  std::vector<ChatEvent> Push(int32_t id);
  // The end; to be called once, last.
  std::vector<ChatEvent> Finish();

 private:
  const Tokenizer* tokenizer_;
  std::unique_ptr<ChatParser> parser_;
  std::map<int32_t, std::string_view> controls_;
  StreamDecoder decoder_;
};

}  // namespace picchio
