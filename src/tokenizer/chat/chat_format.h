// How a family of models writes conversations: an exact renderer and a parser each.
//
// There is no template engine: a model's template is recognised, and what it prints is printed by
// code that was held against it. docs/chat-formats.md lists the formats and their templates.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/chat/chat_message.h"
#include "tokenizer/chat/chat_parser.h"
#include "tokenizer/chat/prompt.h"

namespace picchio {

class Tokenizer;

// May be used by any number of threads at once. All that exist live as long as the program.
class ChatFormat {
 public:
  // What ChatOptions::thinking does to these models.
  enum class Thinking : uint8_t {
    kSwitchable,
    kAlways,  // They reason whatever it says.
    kNever,   // They do not.
  };

  virtual ~ChatFormat() = default;

  virtual std::string_view name() const = 0;
  virtual Thinking thinking() const = 0;

  // Refuses a conversation without messages, and what the format has no way to say.
  virtual Result<Prompt> Render(const ChatRequest& request) const = 0;
  // A parser for the answer to what Render gave for these options.
  virtual std::unique_ptr<ChatParser> NewParser(const ChatOptions& options) const = 0;

  // The tokens that end an answer. The model's own stop ids are to be joined with them.
  virtual std::span<const std::string_view> stop_tokens() const = 0;
  // Their ids, ascending. Fails where the tokenizer is not one for this format.
  Result<std::vector<int32_t>> StopIds(const Tokenizer& tokenizer) const;
};

// All formats.
std::span<const ChatFormat* const> ChatFormats();

// By ChatFormat::name(). The message of a refusal lists the names.
Result<const ChatFormat*> ChatFormatNamed(std::string_view name);

}  // namespace picchio
