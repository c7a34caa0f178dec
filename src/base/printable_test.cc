#include "base/printable.h"

#include "base/utf8.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TEST(Printable, QuotesAndEscapes) {
  EXPECT_EQ(Quoted("a b\u00e9"), "\"a b\u00e9\"");
  EXPECT_EQ(Quoted("a\n\"\\\x7f"), R"("a\x0a\x22\x5c\x7f")");
  EXPECT_EQ(Quoted(std::string(500, 'x')), "\"" + std::string(200, 'x') + "...\"");
  // A character of three bytes at the limit: it is shown whole or not at all.
  std::string long_name(197, 'x');
  EXPECT_EQ(Quoted(long_name + "\u4e2d"), fmt::format("\"{}\u4e2d\"", long_name));
  long_name += 'x';
  EXPECT_EQ(Quoted(long_name + "\u4e2d"), fmt::format("\"{}...\"", long_name));
}

// A tokenizer's pieces are any bytes: what stands in a line is UTF-8 whatever they are.
TEST(Printable, QuotesAnyBytes) {
  EXPECT_EQ(QuotedBytes("a b\u00e9\u4e2d"), "\"a b\u00e9\u4e2d\"");
  EXPECT_EQ(QuotedBytes("a\x80z"), R"("a\x80z")");  // A continuation of nothing.
  EXPECT_EQ(QuotedBytes("\u4e2d\xbf\xbf"), "\"\u4e2d\\xbf\\xbf\"");
  EXPECT_EQ(QuotedBytes("\xe4\xb8"), R"("\xe4\xb8")");
  EXPECT_EQ(QuotedBytes("\n\"\\\x7f"), R"("\x0a\"\\\x7f")");
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const char bytes[] = {'a', static_cast<char>(first), static_cast<char>(second)};
      const std::string quoted = QuotedBytes({bytes, 3});
      EXPECT_TRUE(IsValidUtf8(quoted) && !HasControlBytes(quoted)) << first << " " << second;
    }
  }
}

TEST(Printable, WritesJsonStrings) {
  EXPECT_EQ(JsonString("a/b\u00e9"), "\"a/b\u00e9\"");
  EXPECT_EQ(JsonString("a\"\\"), R"("a\"\\")");
}

TEST(Printable, KnowsPlainFileNames) {
  for (const char* good : {"a", "model 1.safetensors", "\u4e2d.json", "..a", ".hidden"}) {
    EXPECT_TRUE(IsPlainFileName(good)) << good;
  }
  for (const char* bad : {"", ".", "..", "a/b", "/a", "..\\a", "a\nb", "a\x7f"}) {
    EXPECT_FALSE(IsPlainFileName(bad)) << bad;
  }
  EXPECT_FALSE(IsPlainFileName(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace picchio
