// The published tokenizers against encodings that other implementations made
// (tests/data/tokenizers, tests/tools/reference_tokens.mjs).
#include <map>
#include <sstream>

#include "base/json.h"
#include "support/sanitized.h"
#include "support/test_support.h"
#include "tokenizer/tokenizer.h"

namespace picchio {
namespace {

using Ids = std::vector<int32_t>;

std::vector<Json> Rows(std::string_view relative) {
  std::vector<Json> rows;
  std::istringstream lines(ReadAll(TestData(relative)));
  for (std::string line; std::getline(lines, line);) {
    auto row = ParseJson(line, relative);
    EXPECT_OK(row);
    rows.push_back(std::move(row).value());
  }
  return rows;
}

// Every row: the ids, the text of the ids, and, where nothing special is in the text, the same ids
// for text that must not become special.
void CheckRows(const Tokenizer& tokenizer, std::string_view file, size_t expected_rows) {
  const std::vector<Json> rows = Rows(file);
  EXPECT_EQ(rows.size(), expected_rows);
  for (const Json& row : rows) {
    const auto text = row.at("text").get<std::string>();
    const auto ids = row.at("ids").get<Ids>();
    const std::string shown = text.substr(0, 60);
    auto encoded = tokenizer.Encode(text, SpecialTokens::kRecognise);
    ASSERT_OK(encoded);
    EXPECT_TRUE(*encoded == ids) << file << ": " << shown;
    EXPECT_EQ(tokenizer.Decode(ids), row.at("decoded").get<std::string>()) << file << ": " << shown;
    auto as_text = tokenizer.Encode(text, SpecialTokens::kAsText);
    ASSERT_OK(as_text);
    if (!row.at("special").get<bool>()) {
      EXPECT_TRUE(*as_text == ids) << file << ": " << shown;
    }
    for (const int32_t id : *as_text) EXPECT_FALSE(tokenizer.IsSpecial(id)) << shown;
  }
}

#ifdef PICCHIO_SANITIZED
constexpr size_t kLongText = 100'000;
#else
constexpr size_t kLongText = 1'000'000;
#endif

// So much of one thing, where the regular expression could give up and a quadratic step would take
// hours, which the tests' time-out ends.
void CheckLongTexts(const Tokenizer& tokenizer) {
  const auto repeated = [](std::string_view part) {
    std::string text;
    while (text.size() < kLongText) text += part;
    return text;
  };
  std::string base64;
  for (uint32_t state = 1; base64.size() < kLongText;) {
    state = state * 1664525 + 1013904223;
    base64 += "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[state >> 26];
  }
  const std::map<std::string, std::string> texts = {
      {"a letter", repeated("a")},
      {"capitals", repeated("A")},
      {"spaces", repeated(" ")},
      {"spaces and a letter", repeated(" ") + "x"},
      {"line ends", repeated("\n")},
      {"digits", repeated("7")},
      {"emoji", repeated("\U0001F469\u200D\U0001F4BB\U0001F1EE\U0001F1F9")},
      {"base64", base64},
      {"marks", repeated("\u0323")},
      {"no spaces", repeated("\u180e")},
      {"nearly control tokens", repeated("<|im_start<|star")},
  };
  for (const auto& [name, text] : texts) {
    auto ids = tokenizer.Encode(text, SpecialTokens::kRecognise);
    ASSERT_OK(ids);
    EXPECT_EQ(tokenizer.Decode(*ids), text) << name;
  }
}

// All rows agree, also with lone surrogates in mind: the rows have none.
TEST(ReferenceTokens, Qwen3) {
  ASSERT_OK_AND_ASSIGN(const Tokenizer tokenizer,
                       Tokenizer::Load(BuildFile("tokenizers/qwen3/tokenizer.json")));
  EXPECT_EQ(tokenizer.vocab_size(), 151'669);
  EXPECT_EQ(tokenizer.special_ids().size(), 14u);
  EXPECT_EQ(tokenizer.AddedTokenId("<|im_end|>"), 151'645);
  EXPECT_EQ(tokenizer.AddedTokenId("</think>"), 151'668);
  EXPECT_OK(tokenizer.CheckFitsVocabulary(151'936));  // As padded in the models' config.json.
  CheckRows(tokenizer, "tokenizers/qwen3/golden.jsonl", 56);
  CheckRows(tokenizer, "tokenizers/qwen3/mixed.jsonl", 16);
  CheckLongTexts(tokenizer);
}

TEST(ReferenceTokens, GptOss) {
  ASSERT_OK_AND_ASSIGN(const Tokenizer tokenizer,
                       Tokenizer::Load(BuildFile("tokenizers/gpt_oss/tokenizer.json")));
  EXPECT_EQ(tokenizer.vocab_size(), 200'019);
  EXPECT_EQ(tokenizer.special_ids().size(), 21u);
  EXPECT_EQ(tokenizer.AddedTokenId("<|return|>"), 200'002);
  EXPECT_OK(tokenizer.CheckFitsVocabulary(201'088));
  CheckRows(tokenizer, "tokenizers/gpt_oss/golden.jsonl", 56);
  CheckRows(tokenizer, "tokenizers/gpt_oss/mixed.jsonl", 16);
  CheckLongTexts(tokenizer);
}

TEST(ReferenceTokens, Demo) {
  ASSERT_OK_AND_ASSIGN(const Tokenizer tokenizer,
                       Tokenizer::Load(TestData("tokenizers/demo/tokenizer.json")));
  EXPECT_EQ(tokenizer.vocab_size(), 4096);
  CheckRows(tokenizer, "tokenizers/demo/mixed.jsonl", 3);
}

// What the published files do not use, but the layout allows.
TEST(ReferenceTokens, Variants) {
  ASSERT_OK_AND_ASSIGN(const Json original,
                       ParseJson(ReadAll(TestData("tokenizers/demo/tokenizer.json")), "demo"));
  std::map<std::string, Tokenizer> tokenizers;
  const std::vector<Json> rows = Rows("tokenizers/demo/variants.jsonl");
  EXPECT_EQ(rows.size(), 102u);
  for (const Json& row : rows) {
    const auto name = row.at("name").get<std::string>();
    if (!tokenizers.contains(name)) {
      Json json = original;
      json.merge_patch(row.at("patch"));
      auto tokenizer = Tokenizer::Parse(json.dump(), name);
      ASSERT_OK(tokenizer);
      tokenizers.emplace(name, std::move(*tokenizer));
    }
    auto ids =
        tokenizers.at(name).Encode(row.at("text").get<std::string>(), SpecialTokens::kRecognise);
    ASSERT_OK(ids);
    EXPECT_EQ(*ids, row.at("ids").get<Ids>()) << name << ": " << row.at("text");
  }
}

}  // namespace
}  // namespace picchio
