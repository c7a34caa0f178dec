#include "tokenizer/chat/harmony_header.h"

#include "support/test_support.h"

namespace picchio {
namespace {

// "author|recipient|channel|content type|rest".
std::string Parsed(std::string_view header, bool after_start, bool is_whole) {
  std::string_view rest;
  const HarmonyHeader parsed = ParseHarmonyHeader(header, after_start, is_whole, rest);
  return fmt::format("{}|{}|{}|{}|{}", parsed.author, parsed.recipient, parsed.channel,
                     parsed.content_type, rest);
}

// The headers of the public test data, and how its messages read.
TEST(HarmonyHeader, Published) {
  const auto first = [](std::string_view header) { return Parsed(header, false, true); };
  const auto next = [](std::string_view header) { return Parsed(header, true, true); };
  EXPECT_EQ(first("<|channel|>analysis"), "||analysis||");
  EXPECT_EQ(next("assistant<|channel|>final"), "assistant||final||");
  EXPECT_EQ(next("assistant to=functions.lookup_weather<|channel|>commentary <|constrain|>json"),
            "assistant|functions.lookup_weather|commentary|<|constrain|>json|");
  EXPECT_EQ(next("assistant<|channel|>commentary to=browser.search code"),
            "assistant|browser.search|commentary|code|");
  EXPECT_EQ(next("assistant to=lookup_weather<|channel|>analysis code"),
            "assistant|lookup_weather|analysis|code|");
  EXPECT_EQ(next("browser.search to=assistant<|channel|>commentary"),
            "browser.search|assistant|commentary||");
  EXPECT_EQ(next("functions.lookup_weather"), "functions.lookup_weather||||");
  EXPECT_EQ(next("user"), "user||||");
}

TEST(HarmonyHeader, Malformed) {
  EXPECT_EQ(Parsed(" to=functions.f<|constrain|>json<|channel|>commentary", false, true),
            "|functions.f|commentary|<|constrain|>json|");
  EXPECT_EQ(Parsed("<|channel|>commentaryto=functions.f<|constrain|> json", false, true),
            "|functions.f|commentary|<|constrain|>json|");
  EXPECT_EQ(Parsed("assistant<|channel|>commentary functions.f json", true, true),
            "assistant|functions.f|commentary|json|");
  EXPECT_EQ(Parsed("<|channel|>analysis<|channel|>final", false, true), "||final||");
  EXPECT_EQ(Parsed("analysis", true, true), "||analysis||");
  EXPECT_EQ(Parsed("<|channel|>", false, true), "||||");
  EXPECT_EQ(Parsed("<|channel|> to=f", false, true), "|f|||");
  EXPECT_EQ(Parsed("<|channel|>comment", false, true), "||comment||");
  EXPECT_EQ(Parsed("", true, true), "||||");
  EXPECT_EQ(Parsed("  <<|channel|>final", false, true), "||||<<|channel|>final");
}

// Without <|message|> what is no part of a header is content, to the byte.
TEST(HarmonyHeader, WithoutMessage) {
  const auto rest = [](std::string_view header, bool after_start) {
    return Parsed(header, after_start, false);
  };
  EXPECT_EQ(rest("<|channel|>final Hello  there\n", false), "||final||Hello  there\n");
  EXPECT_EQ(rest("Hello", false), "||||Hello");
  EXPECT_EQ(rest("assistant", false), "assistant||||");
  EXPECT_EQ(rest("user names are short", false), "||||user names are short");
  EXPECT_EQ(rest("assistant Hello", true), "assistant||||Hello");
  EXPECT_EQ(rest("Hello there", true), "||||Hello there");
  EXPECT_EQ(rest("<|channel|>Hello there", false), "||||Hello there");
  EXPECT_EQ(rest("<|channel|>footo=f bar", false), "||||footo=f bar");
  EXPECT_EQ(rest("<|channel|>final<|constrain|>Hello there", false), "||final||Hello there");
  EXPECT_EQ(rest("<|channel|>final json", false), "||final||json");
  EXPECT_EQ(rest("<|channel|>commentary to=functions.f json {\"a\": 1}", false),
            "|functions.f|commentary|json|{\"a\": 1}");
}

}  // namespace
}  // namespace picchio
