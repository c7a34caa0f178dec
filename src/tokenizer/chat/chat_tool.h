// Functions that a model may call, as a request to OpenAI's API defines them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/chat/json_value.h"

namespace picchio {

struct ChatTool {
  std::string name;
  std::string description;  // Empty where there is none.
  JsonValue definition;     // {"type": "function", "function": {...}} with all its members.

  // The JSON schema of the arguments; null where the function takes none.
  const JsonValue* parameters() const;
};

// Reads the array "tools" of a request. `where` is what messages call it. Refused: what is no
// function, a name that is not 1 to 128 letters, digits, '_', '-' and '.' (it is written into the
// prompt beside control tokens and must come back from the model as it was), two of one name, a
// description that is no string and parameters that are no object. Unknown members are kept: the
// templates print them.
Result<std::vector<ChatTool>> ParseChatTools(std::string_view json, std::string_view where);

}  // namespace picchio
