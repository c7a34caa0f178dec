#include "engine/stop_strings.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using Strings = std::vector<std::string>;

StopStringMatcher Make(const Strings& stop_strings) {
  auto matcher = StopStringMatcher::Create(stop_strings);
  PICCHIO_CHECK(matcher.has_value());
  return std::move(matcher).value();
}

TEST(StopStrings, WithoutAnyAllTextPasses) {
  auto matcher = Make({});
  EXPECT_EQ(matcher.Append("abc"), "abc");
  EXPECT_EQ(matcher.Append(""), "");
  EXPECT_EQ(matcher.Finish(), "");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopStrings, HoldsBackTheLongestSuffixThatMayBegin) {
  auto matcher = Make({"\n\nUser:", "END"});
  EXPECT_EQ(matcher.Append("Hello"), "Hello");
  EXPECT_EQ(matcher.Append("\n"), "");
  EXPECT_EQ(matcher.Append("\n"), "");
  EXPECT_EQ(matcher.Append("\n"), "\n");  // The first of three can begin nothing any more.
  EXPECT_EQ(matcher.Append("Use E"), "\n\nUse ");
  EXPECT_EQ(matcher.Append("N"), "");
  EXPECT_EQ(matcher.Append("d"), "ENd");
  EXPECT_EQ(matcher.Append("EN"), "");
  EXPECT_EQ(matcher.Finish(), "EN");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopStrings, StopsAcrossPiecesAndDropsTheRest) {
  auto matcher = Make({"<|stop|>"});
  EXPECT_EQ(matcher.Append("so <|"), "so ");
  EXPECT_EQ(matcher.Append("st"), "");
  EXPECT_EQ(matcher.Append("op|> and more"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.matched(), "<|stop|>");
  EXPECT_EQ(matcher.Append("later"), "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopStrings, FirstToEndWinsThenTheLongest) {
  auto overlapping = Make({"abcdef", "cd"});
  EXPECT_EQ(overlapping.Append("xabcdef"), "xab");
  EXPECT_EQ(overlapping.matched(), "cd");
  for (const Strings& strings : {Strings{"bc", "abc", "c"}, Strings{"c", "abc", "bc"}}) {
    auto together = Make(strings);
    EXPECT_EQ(together.Append("xxabc"), "xx");
    EXPECT_EQ(together.matched(), "abc");
  }
}

TEST(StopStrings, RepetitiveStringsFallBackWithoutLosingAStart) {
  auto matcher = Make({"aabaaa"});
  EXPECT_EQ(matcher.Append("aabaabaaaX"), "aab");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(Make({"aaa"}).Append("baaaa"), "b");
}

TEST(StopStrings, NeverCutsACharacter) {
  // U+00E9 and U+00E8 share their first byte; so do the birds U+1F426 and U+1F427 three of theirs.
  auto matcher = Make({"\u00e9\U0001F426"});
  EXPECT_EQ(matcher.Append("caf\u00e8"), "caf\u00e8");
  EXPECT_EQ(matcher.Append("caf\u00e9"), "caf");
  EXPECT_EQ(matcher.Append("\U0001F427"), "\u00e9\U0001F427");
  EXPECT_EQ(matcher.Append("\u00e9\U0001F426"), "");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopStrings, BadStringsAreRefused) {
  EXPECT_THAT(StopStringMatcher::Create({"ok", ""}), Fails(Code::kInvalidArgument, "is empty"));
  EXPECT_THAT(StopStringMatcher::Create({"ok\xff"}),
              Fails(Code::kInvalidArgument, "not valid UTF-8 at byte 2"));
}

// Against the definition itself: over all of a text, the first position at which one of the strings
// ends, found with std::string alone; for every way to cut the text in two or in single characters.
TEST(StopStrings, OutcomeDoesNotDependOnThePieces) {
  const Strings alphabet = {"a", "b", "\u00e9"};
  uint64_t state = 5;
  const auto random = [&](size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % n;
  };
  const auto text_of = [&](size_t characters) {
    std::string text;
    while (characters-- > 0) text += alphabet[random(alphabet.size())];
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 500; ++round) {
    const std::string text = text_of(random(20));
    Strings stop_strings;
    for (size_t i = 1 + random(3); i > 0; --i) stop_strings.push_back(text_of(1 + random(5)));

    std::string expected = text;
    for (size_t end = 1; end <= text.size() && expected == text; ++end) {
      size_t longest = 0;
      for (const std::string& s : stop_strings) {
        if (text.substr(0, end).ends_with(s)) longest = std::max(longest, s.size());
      }
      if (longest > 0) {
        expected = text.substr(0, end - longest);
        ++stopped;
        break;
      }
    }
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      if (!IsValidUtf8(text.substr(0, cut))) continue;
      auto matcher = Make(stop_strings);
      std::string shown = matcher.Append(text.substr(0, cut));
      ASSERT_TRUE(IsValidUtf8(shown));
      ASSERT_TRUE(expected.starts_with(shown));
      shown += matcher.Append(text.substr(cut));
      ASSERT_TRUE(IsValidUtf8(shown));
      shown += matcher.Finish();
      ASSERT_EQ(shown, expected);
    }
  }
  EXPECT_GT(stopped, 100);
}

}  // namespace
}  // namespace picchio
