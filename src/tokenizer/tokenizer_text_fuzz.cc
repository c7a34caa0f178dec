// Any bytes as a text: it comes back as it was, in NFC; as text and with control tokens recognised.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/nfc.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_test_support.h"

namespace {

const picchio::Tokenizer& Tiny() {
  static const picchio::Tokenizer tokenizer = [] {
    auto parsed = picchio::Tokenizer::Parse(picchio::TinyTokenizer().dump(), "tiny");
    PICCHIO_CHECK(parsed.has_value());
    return std::move(parsed).value();
  }();
  return tokenizer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using picchio::SpecialTokens;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto as_text = Tiny().Encode(text, SpecialTokens::kAsText);
  PICCHIO_CHECK(as_text.has_value() == picchio::IsValidUtf8(text));
  if (!as_text.has_value()) return 0;
  const std::string nfc = picchio::ToNfc(text);
  PICCHIO_CHECK(picchio::ToNfc(nfc) == nfc);
  PICCHIO_CHECK(!picchio::IsTriviallyNfc(text) || nfc == text);
  PICCHIO_CHECK(Tiny().Decode(*as_text) == nfc);
  for (const int32_t id : *as_text) PICCHIO_CHECK(!Tiny().IsSpecial(id));

  // Normalisation stops at a control token, so the texts agree once each is normalised again.
  const auto recognised = Tiny().Encode(text, SpecialTokens::kRecognise);
  PICCHIO_CHECK(recognised.has_value());
  PICCHIO_CHECK(picchio::ToNfc(Tiny().Decode(*recognised)) == nfc);
  return 0;
}
