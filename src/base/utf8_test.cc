#include "base/utf8.h"

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(Utf8, ValidText) {
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8("plain"));
  EXPECT_TRUE(IsValidUtf8("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x90\xA6\xF4\x8F\xBF\xBF"));
}

// The ill-formed sequences of the Unicode Standard, section 3.9, and the cases around each limit.
TEST(Utf8, InvalidText) {
  for (const char* bad : {"\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                          "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80", "\xFF", "\xC3(", "\xE2\x82", "\xF0\x9F\x90"}) {
    EXPECT_EQ(ValidUtf8Prefix(std::string("ok") + bad), 2u) << testing::PrintToString(bad);
  }
}

TEST(Utf8, IncompleteSuffix) {
  EXPECT_EQ(IncompleteUtf8Suffix(""), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix("abc"), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix("a\xC3"), 1u);
  EXPECT_EQ(IncompleteUtf8Suffix("a\xE2\x82"), 2u);
  EXPECT_EQ(IncompleteUtf8Suffix("a\xF0\x9F\x90"), 3u);
  EXPECT_EQ(IncompleteUtf8Suffix("a\xF0\x9F\x90\xA6"), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix("a\xE0\x80"), 0u);  // Overlong: nothing can complete it.
  EXPECT_EQ(IncompleteUtf8Suffix("\x80\x80\x80"), 0u);
}

}  // namespace
}  // namespace picchio
