#include "tokenizer/pre_tokenizer.h"

#include "support/test_support.h"

namespace picchio {
namespace {

using List = std::vector<std::string>;

List Pieces(const PreTokenizer& pre_tokenizer, std::string_view text) {
  auto tokens = pre_tokenizer.Split(text);
  EXPECT_OK(tokens);
  List pieces;
  size_t begin = 0;
  for (const size_t end : tokens->ends) {
    pieces.push_back(tokens->text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, tokens->text.size());
  return pieces;
}

Regex Compiled(std::string_view pattern) {
  auto regex = Regex::Compile(pattern);
  EXPECT_OK(regex);
  return std::move(regex).value();
}

TEST(PreTokenizer, WithoutStagesTheTextIsOnePiece) {
  const PreTokenizer none;
  EXPECT_EQ(Pieces(none, ""), List{});
  EXPECT_EQ(Pieces(none, "a b"), List{"a b"});
}

TEST(PreTokenizer, MatchesAndWhatIsBetween) {
  PreTokenizer digits;
  digits.AddSplit(Compiled("\\d+"));
  EXPECT_EQ(Pieces(digits, "ab12c3"), (List{"ab", "12", "c", "3"}));
  EXPECT_EQ(Pieces(digits, "12ab"), (List{"12", "ab"}));
  EXPECT_EQ(Pieces(digits, "ab"), List{"ab"});
  EXPECT_EQ(Pieces(digits, ""), List{});
}

TEST(PreTokenizer, LaterSplitsSeeTheirPieceAlone) {
  PreTokenizer two;
  two.AddSplit(Compiled("\\d"));
  two.AddSplit(Compiled("a(?!1)"));  // Nothing follows the a within its piece.
  EXPECT_EQ(Pieces(two, "ba1a"), (List{"b", "a", "1", "a"}));
}

TEST(PreTokenizer, SpacesInFront) {
  PreTokenizer pre;
  pre.AddSplit(Compiled("\\d"));
  pre.AddPrefixSpace();
  EXPECT_EQ(Pieces(pre, "a1 b"), (List{" a", " 1", " b"}));
  EXPECT_EQ(Pieces(pre, ""), List{});
  pre.AddSplit(Compiled("[a-z]"));
  EXPECT_EQ(Pieces(pre, "a1"), (List{" ", "a", " 1"}));
}

// The classic example of GPT-2's splits.
TEST(PreTokenizer, ByteLevelRegex) {
  PreTokenizer pre;
  pre.AddSplit(Compiled(kByteLevelRegex));
  EXPECT_EQ(Pieces(pre, "Hello, it's 12  \n tea!"),
            (List{"Hello", ",", " it", "'s", " 12", "  \n", " tea", "!"}));
}

TEST(PreTokenizer, SaysThatARegexGaveUp) {
  PreTokenizer pre;
  pre.AddSplit(Compiled("(?:a+)+[bc]"));
  EXPECT_THAT(pre.Split(std::string(50, 'a')), Fails(Code::kUnsupported, "gave up"));
}

}  // namespace
}  // namespace picchio
