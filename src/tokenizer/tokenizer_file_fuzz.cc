// Any bytes as a tokenizer.json. What is accepted must encode and decode a text without a fault.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using picchio::SpecialTokens;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = picchio::Tokenizer::Parse(json, "fuzz");
  if (!tokenizer.has_value()) return 0;
  constexpr std::string_view kText =
      "Hello, WORLD's 12345 e\u0301\u00e9 \u4e2d\u6587 \U0001F426<|end|><think>\r\n\n \t \u180e x "
      " ";
  for (const SpecialTokens special : {SpecialTokens::kRecognise, SpecialTokens::kAsText}) {
    const auto ids = tokenizer->Encode(kText, special);
    if (!ids.has_value()) continue;  // The file's regular expression may give up.
    for (const int32_t id : *ids) PICCHIO_CHECK(tokenizer->HasToken(id));
    PICCHIO_CHECK(picchio::IsValidUtf8(tokenizer->Decode(*ids)));
  }
  return 0;
}
