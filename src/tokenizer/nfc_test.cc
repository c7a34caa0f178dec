#include "tokenizer/nfc.h"

#include <utf8proc.h>

#include <sstream>

#include "support/test_support.h"

namespace picchio {
namespace {

// "1E0A 0323" as UTF-8.
std::string TextOf(const std::string& numbers) {
  std::istringstream in(numbers);
  std::string text;
  for (unsigned number = 0; in >> std::hex >> number;) {
    utf8proc_uint8_t bytes[4];
    const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(number), bytes);
    text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
  }
  return text;
}

// Unicode's own test suite: every character that normalisation touches, and the hard sequences.
TEST(Nfc, UnicodeTestSuite) {
  std::istringstream lines(ReadAll(BuildFile("unicode/NormalizationTest.txt")));
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream columns(line);
    std::string source;
    std::string nfc;
    std::string nfd;
    std::getline(columns, source, ';');
    std::getline(columns, nfc, ';');
    std::getline(columns, nfd, ';');
    for (const std::string& column : {source, nfc, nfd}) {
      const std::string text = TextOf(column);
      ASSERT_EQ(ToNfc(text), TextOf(nfc)) << line;
      if (IsTriviallyNfc(text)) {
        ASSERT_EQ(text, TextOf(nfc)) << line;
      }
    }
    ++rows;
  }
  EXPECT_EQ(rows, 19074);
}

TEST(Nfc, WhatIsTrivial) {
  EXPECT_TRUE(IsTriviallyNfc(""));
  EXPECT_TRUE(IsTriviallyNfc("plain text\n"));
  EXPECT_TRUE(IsTriviallyNfc("perch\u00e9 \u0141\u00f3d\u017a \u02ff"));
  EXPECT_FALSE(IsTriviallyNfc("e\u0301"));
  EXPECT_FALSE(IsTriviallyNfc("\u0300"));
  EXPECT_FALSE(IsTriviallyNfc("\u4e2d"));  // It is in NFC, but only the tables say so.
  EXPECT_EQ(ToNfc(""), "");
}

// Hangul by the arithmetic of the Unicode Standard, section 3.12: L + V, LV + T with 0 < T < 28.
// U+11A7 would be T = 0, which is none.
TEST(Nfc, Hangul) {
  EXPECT_EQ(ToNfc("\u1100\u1161\u11A8"), "\uAC01");
  EXPECT_EQ(ToNfc("\uAC00\u11C2"), "\uAC1B");
  EXPECT_EQ(ToNfc("\uAC00\u11C3"), "\uAC00\u11C3");
  EXPECT_EQ(ToNfc("\uAC01\u11A8"), "\uAC01\u11A8");
  EXPECT_EQ(ToNfc("\uAC00\u11A7"), "\uAC00\u11A7");
  EXPECT_EQ(ToNfc("\u11A7\u1112\u1175\u11A7\u11A7\u0323\u1100\u1161\u11A8\u11A7"),
            "\u11A7\uD788\u11A7\u11A7\u0323\uAC01\u11A7");
}

// U+0323 (class 220) goes before U+0301 (class 230). Half a million of them, all in the wrong
// order.
TEST(Nfc, LongRunsOfMarksAreSorted) {
  constexpr size_t kPairs = 250'000;
  std::string text = "q";
  std::string expected = "q";
  for (size_t i = 0; i < kPairs; ++i) text += "\u0301\u0323";
  for (size_t i = 0; i < kPairs; ++i) expected += "\u0323";
  for (size_t i = 0; i < kPairs; ++i) expected += "\u0301";
  // Exchanging neighbours would take 10^10 steps, and the test never end.
  EXPECT_TRUE(ToNfc(text) == expected);
}

}  // namespace
}  // namespace picchio
