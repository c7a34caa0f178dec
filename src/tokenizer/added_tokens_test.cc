#include "tokenizer/added_tokens.h"

#include "support/test_support.h"

namespace picchio {
namespace {

using Found = std::vector<std::pair<std::string, int32_t>>;

Found AllIn(const AddedTokens& tokens, std::string_view text) {
  Found found;
  for (size_t at = 0; at < text.size();) {
    const AddedTokens::Match match = tokens.Find(text, at);
    EXPECT_GE(match.begin, at);
    if (match.id < 0) {
      EXPECT_EQ(match.begin, text.size());
      EXPECT_EQ(match.end, text.size());
      break;
    }
    found.emplace_back(text.substr(match.begin, match.end - match.begin), match.id);
    at = match.end;
  }
  return found;
}

TEST(AddedTokens, NoneAtAll) {
  const AddedTokens none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.Find("text", 1).id, -1);
  EXPECT_EQ(none.Find("text", 1).begin, 4u);
}

TEST(AddedTokens, LeftmostThenLongest) {
  const AddedTokens tokens(
      {{"<a>", 1}, {"<a>b", 2}, {"<a>bcd", 3}, {"b", 4}, {"cd", 5}, {"\xFF", 6}});
  EXPECT_FALSE(tokens.empty());
  EXPECT_EQ(AllIn(tokens, ""), Found{});
  EXPECT_EQ(AllIn(tokens, "nothing"), Found{});
  EXPECT_EQ(AllIn(tokens, "x<a>x"), (Found{{"<a>", 1}}));
  EXPECT_EQ(AllIn(tokens, "<a>b"), (Found{{"<a>b", 2}}));
  EXPECT_EQ(AllIn(tokens, "<a>bc"), (Found{{"<a>b", 2}}));
  EXPECT_EQ(AllIn(tokens, "<a>bcd"), (Found{{"<a>bcd", 3}}));
  EXPECT_EQ(AllIn(tokens, "<a>bccd<<a><a"), (Found{{"<a>b", 2}, {"cd", 5}, {"<a>", 1}}));
  EXPECT_EQ(AllIn(tokens, "bb\xFF"), (Found{{"b", 4}, {"b", 4}, {"\xFF", 6}}));
  EXPECT_EQ(AllIn(tokens, std::string_view("<a>\0b", 5)), (Found{{"<a>", 1}, {"b", 4}}));
}

TEST(AddedTokens, TokensThatShareTheirBeginning) {
  const AddedTokens tokens({{"<|b|>", 1}, {"<|abc|>", 2}, {"<|ab|>", 3}, {"<|", 4}});
  EXPECT_EQ(AllIn(tokens, "<|abc|><|ab|><|b|><|abd|>"),
            (Found{{"<|abc|>", 2}, {"<|ab|>", 3}, {"<|b|>", 1}, {"<|", 4}}));
}

}  // namespace
}  // namespace picchio
