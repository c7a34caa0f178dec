// Any bytes as a request's tools. What is accepted prints as JSON that reads as the same, and no
// prompt gets a control token more from it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/chat/chat_format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using picchio::JsonDialect;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  auto tools = picchio::ParseChatTools(json, "tools");
  if (!tools.has_value() || tools->empty()) return 0;
  for (const picchio::ChatTool& tool : *tools) {
    for (const JsonDialect dialect : {JsonDialect::kPython, JsonDialect::kRust}) {
      const std::string printed = picchio::PrintJson(tool.definition, dialect);
      const auto again = picchio::ParseJsonInOrder(printed, "printed");
      PICCHIO_CHECK(again.has_value() && picchio::PrintJson(*again, dialect) == printed);
    }
  }
  picchio::ChatRequest request;
  request.messages = {{.role = picchio::ChatRole::kUser, .content = "Q"}};
  request.tools = std::move(*tools);
  for (const picchio::ChatFormat* format : picchio::ChatFormats()) {
    const auto prompt = format->Render(request);
    PICCHIO_CHECK(prompt.has_value());
    PICCHIO_CHECK(picchio::IsValidUtf8(prompt->Rendered()));
    const auto& pieces = prompt->pieces();
    const auto num_tokens =
        std::count_if(pieces.begin(), pieces.end(),
                      [](const picchio::PromptPiece& piece) { return piece.is_token; });
    // The start of the answer, and three tokens each for a Harmony message; in Qwen3's tool prompt
    // the marks of a call stand twice, and its Thinking model's prompt opens its reasoning.
    const bool thinks = format->name() == "qwen3-thinking-2507";
    PICCHIO_CHECK(num_tokens == (format->name() == "harmony" ? 10 : thinks ? 10 : 9));
  }
  return 0;
}
