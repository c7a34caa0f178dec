#include "tokenizer/chat/prompt.h"

#include "support/test_support.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_test_support.h"

namespace picchio {
namespace {

using IdList = std::vector<int32_t>;

Tokenizer TinyForPrompts() {
  auto tokenizer = Tokenizer::Parse(TinyTokenizer().dump(), "tiny/tokenizer.json");
  EXPECT_OK(tokenizer);
  return std::move(tokenizer).value();
}

TEST(Prompt, JoinsTextsAndDropsEmptyOnes) {
  Prompt prompt;
  prompt.Text("").Token("<|end|>").Text("hel").Text("").Text("lo").Token("<think>").Text("");
  const std::vector<PromptPiece> pieces = {{true, "<|end|>"}, {false, "hello"}, {true, "<think>"}};
  EXPECT_EQ(prompt.pieces(), pieces);
  EXPECT_EQ(prompt.Rendered(), "<|end|>hello<think>");
}

TEST(Prompt, MergesReachOverPartsButContentIsNeverControl) {
  const Tokenizer tokenizer = TinyForPrompts();
  Prompt prompt;
  prompt.Token("<|end|>").Text("hel").Text("lo wor").Text("ld").Token("<think>");
  ASSERT_OK_AND_ASSIGN(const IdList ids, prompt.Encode(tokenizer));
  EXPECT_EQ(ids, (IdList{265, 259, 264, 266}));

  Prompt hostile;
  hostile.Token("<|end|>").Text("<|end|><think><|e").Text("nd|>");
  ASSERT_OK_AND_ASSIGN(const IdList text, hostile.Encode(tokenizer));
  EXPECT_EQ(std::count(text.begin(), text.end(), 265), 1);
  EXPECT_EQ(std::count(text.begin(), text.end(), 266), 0);
  EXPECT_EQ(tokenizer.Decode(text), "<|end|><|end|><think><|end|>");
}

TEST(Prompt, Refuses) {
  const Tokenizer tokenizer = TinyForPrompts();
  EXPECT_THAT(Prompt().Token("<|im_start|>").Encode(tokenizer),
              Fails(Code::kUnsupported, "no token <|im_start|>"));
  EXPECT_THAT(Prompt().Token("hello").Encode(tokenizer), Fails(Code::kUnsupported, "hello"));
  EXPECT_THAT(Prompt().Text("a\xff").Encode(tokenizer), Fails(Code::kInvalidArgument, "UTF-8"));
}

}  // namespace
}  // namespace picchio
