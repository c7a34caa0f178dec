#include "apps/run/prompt.h"

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(ParseIds, TakesEveryUsualSpelling) {
  for (const char* text : {"1 22 333", "1\n22\n333\n", "[1, 22, 333]", "\t1,22,\r\n333 "}) {
    ASSERT_OK_AND_ASSIGN(const auto ids, ParseIds(text, "x"));
    EXPECT_THAT(ids, testing::ElementsAre(1, 22, 333)) << text;
  }
}

TEST(ParseIds, NamesTheFirstBadWord) {
  EXPECT_THAT(ParseIds("1 2x 3", "f.ids"), Fails(Code::kInvalidArgument, "word 2 is \"2x\""));
  EXPECT_THAT(ParseIds("-1", "f"), Fails(Code::kInvalidArgument, "word 1"));
  EXPECT_THAT(ParseIds("2147483648", "f"), Fails(Code::kInvalidArgument, "word 1"));
  EXPECT_THAT(ParseIds("1.5", "f"), Fails(Code::kInvalidArgument, "word 1"));
  EXPECT_THAT(ParseIds(" \n", "f"), Fails(Code::kInvalidArgument, "no token ids"));
}

TEST(ReadPrompt, RefusesWhatIsNoPrompt) {
  ASSERT_OK_AND_ASSIGN(const Tokenizer tokenizer,
                       Tokenizer::Load(TestData("tokenizers/demo/tokenizer.json")));
  EXPECT_THAT(ReadPrompt({.text = ""}, &tokenizer), Fails(Code::kInvalidArgument, "empty"));
  EXPECT_THAT(ReadPrompt({.text = "caf\xE9"}, &tokenizer),
              Fails(Code::kInvalidArgument, "the prompt"));
  EXPECT_THAT(ReadPrompt({.text = "hello"}, nullptr),
              Fails(Code::kInvalidArgument, "no tokenizer.json"));
  EXPECT_THAT(ReadPrompt({.text_file = "/nowhere"}, &tokenizer), Fails(Code::kNotFound, "nowhere"));
}

TEST(ReadPrompt, ReadsTextAndIdsFromFiles) {
  ASSERT_OK_AND_ASSIGN(const Tokenizer tokenizer,
                       Tokenizer::Load(TestData("tokenizers/demo/tokenizer.json")));
  TemporaryFolder folder;
  WriteAll(folder / "prompt.txt", "Once upon a time");
  WriteAll(folder / "prompt.ids", "5 6 7");
  ASSERT_OK_AND_ASSIGN(const auto text,
                       ReadPrompt({.text_file = (folder / "prompt.txt").string()}, &tokenizer));
  EXPECT_EQ(tokenizer.Decode(text), "Once upon a time");
  ASSERT_OK_AND_ASSIGN(const auto ids,
                       ReadPrompt({.ids_file = (folder / "prompt.ids").string()}, nullptr));
  EXPECT_THAT(ids, testing::ElementsAre(5, 6, 7));
}

}  // namespace
}  // namespace picchio
