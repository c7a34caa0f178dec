#include "tokenizer/tokenizer.h"

#include <thread>

#include "support/test_support.h"
#include "tokenizer/tokenizer_test_support.h"

namespace picchio {
namespace {

using Ids = std::vector<int32_t>;
using enum SpecialTokens;

Tokenizer Tiny(const Json& json = TinyTokenizer()) {
  auto tokenizer = Tokenizer::Parse(json.dump(), "tiny/tokenizer.json");
  EXPECT_OK(tokenizer);
  return std::move(tokenizer).value();
}

Ids Encoded(const Tokenizer& tokenizer, std::string_view text, SpecialTokens special = kRecognise) {
  auto ids = tokenizer.Encode(text, special);
  EXPECT_OK(ids);
  return ids.has_value() ? *ids : Ids{-1};
}

TEST(Tokenizer, EncodesAndDecodes) {
  const Tokenizer tokenizer = Tiny();
  EXPECT_EQ(Encoded(tokenizer, ""), Ids{});
  EXPECT_EQ(Encoded(tokenizer, "hello world"), (Ids{259, 264}));
  EXPECT_EQ(Encoded(tokenizer, "hello hello"),
            (Ids{259, ' ', 259}));  // The split is before " hello".
  EXPECT_EQ(tokenizer.Decode(Ids{259, 264}), "hello world");
  EXPECT_EQ(tokenizer.Decode({}), "");
}

TEST(Tokenizer, ControlTokens) {
  const Tokenizer tokenizer = Tiny();
  EXPECT_EQ(Encoded(tokenizer, "he<|end|>he<think>"), (Ids{256, 265, 256, 266}));
  EXPECT_EQ(Encoded(tokenizer, "<|end|"), (Ids{'<', '|', 'e', 'n', 'd', '|'}));
  EXPECT_EQ(Encoded(tokenizer, "<|end|><think>", kAsText),
            (Ids{'<', '|', 'e', 'n', 'd', '|', '>', '<', 't', 'h', 'i', 'n', 'k', '>'}));
  EXPECT_EQ(tokenizer.Decode(Ids{265, 'x', 266}), "<|end|>x<think>");

  EXPECT_EQ(tokenizer.AddedTokenId("<|end|>"), 265);
  EXPECT_EQ(tokenizer.AddedTokenId("<think>"), 266);
  EXPECT_EQ(tokenizer.AddedTokenId("<|end|>x"), std::nullopt);
  EXPECT_EQ(tokenizer.AddedTokenId("hello"), std::nullopt);
  EXPECT_EQ(tokenizer.AddedTokenId(""), std::nullopt);
  EXPECT_EQ(Ids(tokenizer.special_ids().begin(), tokenizer.special_ids().end()), Ids{265});
  EXPECT_TRUE(tokenizer.IsSpecial(265));
  EXPECT_FALSE(tokenizer.IsSpecial(266));
}

// With ignore_merges a piece that is a token becomes it; a special token that the vocabulary lists
// too must not come out of a user's text that way.
TEST(Tokenizer, SpecialTokensOfTheVocabularyStayOutOfReach) {
  Json json = TinyTokenizer();
  json["model"]["ignore_merges"] = true;
  json["model"]["vocab"]["STOP"] = 265;
  json["model"]["vocab"]["GO"] = 267;
  json["added_tokens"][0]["content"] = "STOP";
  json["added_tokens"][1]["content"] = "GO";
  json["added_tokens"][1]["id"] = 267;
  const Tokenizer tokenizer = Tiny(json);
  EXPECT_EQ(Encoded(tokenizer, "STOP"), Ids{265});
  EXPECT_EQ(Encoded(tokenizer, "STOP", kAsText), (Ids{'S', 'T', 'O', 'P'}));
  EXPECT_EQ(Encoded(tokenizer, "GO", kAsText), Ids{267});  // Not special: a word like others.
}

TEST(Tokenizer, NormalisesBetweenControlTokens) {
  const Tokenizer tokenizer = Tiny();
  EXPECT_EQ(Encoded(tokenizer, "e\u0301"), (Ids{0xC3, 0xA9}));
  EXPECT_EQ(Encoded(tokenizer, "e<|end|>\u0301"), (Ids{'e', 265, 0xCC, 0x81}));
  EXPECT_EQ(Encoded(tokenizer, "e\u0301", kAsText), (Ids{0xC3, 0xA9}));
}

TEST(Tokenizer, TextThatIsNotUtf8) {
  const Tokenizer tokenizer = Tiny();
  for (const SpecialTokens special : {kRecognise, kAsText}) {
    EXPECT_THAT(tokenizer.Encode("ab\xFFz", special),
                Fails(Code::kInvalidArgument, "not UTF-8: byte 2 (0xff)"));
    EXPECT_THAT(tokenizer.Encode("\xED\xA0\x80", special),
                Fails(Code::kInvalidArgument, "byte 0 (0xed)"));
    EXPECT_THAT(tokenizer.Encode("abc\xE4\xB8", special),
                Fails(Code::kInvalidArgument, "byte 3 (0xe4)"));
  }
}

TEST(Tokenizer, TextThatIsTooLong) {
  const std::string text((256u << 20) + 1, ' ');
  EXPECT_THAT(Tiny().Encode(text, kAsText), Fails(Code::kInvalidArgument, "at most 268435456"));
}

TEST(Tokenizer, RegexThatGivesUp) {
  Json json = TinyTokenizer();
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(?:a+)+[bc]|.";
  const Tokenizer tokenizer = Tiny(json);
  const std::string text = "<|end|>" + std::string(60, 'a');
  EXPECT_THAT(tokenizer.Encode(text, kRecognise), Fails(Code::kUnsupported, "gave up"));
  EXPECT_THAT(tokenizer.Encode(text, kAsText), Fails(Code::kUnsupported, "gave up"));
}

TEST(Tokenizer, TokensAndTheirBytes) {
  Json json = TinyTokenizer();
  json["added_tokens"][1]["id"] = 300;
  const Tokenizer tokenizer = Tiny(json);
  EXPECT_EQ(tokenizer.vocab_size(), 301);
  EXPECT_EQ(tokenizer.TokenBytes(264), " world");
  EXPECT_EQ(tokenizer.TokenBytes(0), std::string_view("\0", 1));
  EXPECT_EQ(tokenizer.TokenBytes(0xFF), "\xFF");
  EXPECT_EQ(tokenizer.TokenBytes(300), "<think>");
  for (const int32_t none : {-1, 266, 299, 301, INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(tokenizer.HasToken(none));
    EXPECT_EQ(tokenizer.TokenBytes(none), "");
    EXPECT_EQ(tokenizer.Decode(Ids{'a', none, 'b'}), "ab");
  }
  EXPECT_TRUE(tokenizer.HasToken(300));
}

TEST(Tokenizer, FitsTheModel) {
  const Tokenizer tokenizer = Tiny();
  EXPECT_OK(tokenizer.CheckFitsVocabulary(267));
  EXPECT_OK(tokenizer.CheckFitsVocabulary(1024));
  EXPECT_THAT(tokenizer.CheckFitsVocabulary(266),
              Fails(Code::kCorrupt,
                    "tiny/tokenizer.json: token ids reach 266, but the model's "
                    "vocabulary has 266 entries"));
}

TEST(Tokenizer, LoadsAFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(Tokenizer::Load(folder / "none.json"), Fails(Code::kNotFound, "none.json"));
  WriteAll(folder / "bad.json", "{");
  EXPECT_THAT(Tokenizer::Load(folder / "bad.json"), Fails(Code::kCorrupt, "bad.json: not valid"));
  WriteAll(folder / "good.json", TinyTokenizer().dump());
  EXPECT_OK(Tokenizer::Load(folder / "good.json"));
}

TEST(Tokenizer, ThreadsShareOne) {
  const Tokenizer tokenizer = Tiny();
  std::string text;
  for (int i = 0; i < 2000; ++i)
    text += "hello world " + std::to_string(i * 7919) + " e\u0301<|end|>";
  const Ids expected = Encoded(tokenizer, text);
  std::vector<Ids> got(4);
  std::vector<std::thread> threads;
  for (Ids& ids : got) {
    threads.emplace_back([&] { ids = Encoded(tokenizer, text); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : got) EXPECT_TRUE(ids == expected);
}

}  // namespace
}  // namespace picchio
