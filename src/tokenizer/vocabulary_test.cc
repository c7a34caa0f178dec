#include "tokenizer/vocabulary.h"

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(Vocabulary, TokensById) {
  Vocabulary vocabulary;
  EXPECT_EQ(vocabulary.size(), 0);
  EXPECT_EQ(vocabulary.Find("a"), Vocabulary::kNone);
  ASSERT_OK(vocabulary.Add(5, "five"));
  ASSERT_OK(vocabulary.Add(2, std::string_view("\0x", 2)));
  EXPECT_EQ(vocabulary.size(), 6);
  EXPECT_EQ(vocabulary.Bytes(5), "five");
  EXPECT_EQ(vocabulary.Bytes(2), std::string_view("\0x", 2));
  EXPECT_TRUE(vocabulary.Has(2));
  for (const int64_t none : {int64_t{-1}, int64_t{0}, int64_t{3}, int64_t{6}, int64_t{1} << 40}) {
    EXPECT_FALSE(vocabulary.Has(none));
    EXPECT_EQ(vocabulary.Bytes(none), "");
  }
}

TEST(Vocabulary, OnlyTheFindableAreFound) {
  Vocabulary vocabulary;
  ASSERT_OK(vocabulary.Add(0, "hidden"));
  for (int i = 1; i <= 1000; ++i) {
    ASSERT_OK(vocabulary.Add(i, std::to_string(i)));
    vocabulary.MakeFindable(i);
  }
  for (int i = 1; i <= 1000; ++i) EXPECT_EQ(vocabulary.Find(std::to_string(i)), i);
  EXPECT_EQ(vocabulary.Find("hidden"), Vocabulary::kNone);
  EXPECT_EQ(vocabulary.Find("1001"), Vocabulary::kNone);
  EXPECT_EQ(vocabulary.Find(""), Vocabulary::kNone);
}

TEST(Vocabulary, BadIds) {
  Vocabulary vocabulary;
  ASSERT_OK(vocabulary.Add(7, "a"));
  EXPECT_THAT(vocabulary.Add(7, "b"), Fails(Code::kCorrupt, "two tokens have the id 7"));
  EXPECT_THAT(vocabulary.Add(-1, "b"), Fails(Code::kCorrupt, "token id -1 is outside"));
  EXPECT_THAT(vocabulary.Add(Vocabulary::kMaxTokens, "b"), Fails(Code::kCorrupt, "is outside"));
  EXPECT_EQ(vocabulary.size(), 8);
}

}  // namespace
}  // namespace picchio
