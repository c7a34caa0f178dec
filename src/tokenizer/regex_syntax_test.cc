#include "tokenizer/regex_syntax.h"

#include "support/test_support.h"
#include "tokenizer/regex.h"

namespace picchio {
namespace {

// The translations are written out by hand from the two dialects' manuals.
TEST(RegexSyntax, Translations) {
  const auto translated = [](std::string_view pattern) {
    const auto result = TranslateRegex(pattern);
    return result.has_value() ? *result : result.error().message();
  };
  EXPECT_EQ(translated("abc|Z9"), "abc|Z9");
  EXPECT_EQ(translated("a b'#"), "a\\x{20}b\\x{27}\\x{23}");
  EXPECT_EQ(translated("(a)(?:b)(?i:c)(?=d)(?!e)(?<=f)(?<!g)(?>h)"),
            "(?:a)(?:b)(?i:c)(?=d)(?!e)(?<=f)(?<!g)(?>h)");
  EXPECT_EQ(translated("a?b*c+d?e*?f+?g?+h*+i++j??"), "a?b*c+d?e*?f+?g?+h*+i++j??");
  EXPECT_EQ(translated("a{1,3}b{2}c{3,}"), "a{1,3}b{2}c{3,}");
  EXPECT_EQ(translated("\\p{L}\\P{Nd}\\p{^Lu}\\P{^M}\\d\\D"),
            "[\\p{L}][\\P{Nd}][\\P{Lu}][\\p{M}][\\p{Nd}][\\P{Nd}]");
  EXPECT_EQ(translated("[a-z\\p{L}_-]"), "[a-z\\p{L}\\x{5F}\\x{2D}]");
  EXPECT_EQ(translated("[^\\r\\n-]"), "[^\\x{D}\\x{A}\\x{2D}]");
  EXPECT_EQ(translated("[-a]"), "[\\x{2D}a]");
  EXPECT_EQ(translated("\\t\\n\\v\\f\\r\\a\\e"), "\\x{9}\\x{A}\\x{B}\\x{C}\\x{D}\\x{7}\\x{1B}");
  EXPECT_EQ(translated("\\x41\\x{1F600}\\u4e2D\\.\\\\\\]"),
            "A\\x{1F600}\\x{4E2D}\\x{2E}\\x{5C}\\x{5D}");
  EXPECT_EQ(translated("\u00e9\u4e2d\U0001F600-]}"),
            "\\x{E9}\\x{4E2D}\\x{1F600}\\x{2D}\\x{5D}\\x{7D}");
  EXPECT_EQ(translated("[\u4e00-\u9fa5]."), "[\\x{4E00}-\\x{9FA5}].");
}

TEST(RegexSyntax, WhatIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"^a", "'^' at byte 0"},
      {"a$", "'$' at byte 1"},
      {"\\w+", "'\\w+'"},
      {"\\bx", "'\\bx'"},
      {"\\h", "'\\h'"},
      {"\\R", "'\\R'"},
      {"(a)\\1", "'\\1'"},
      {"\\\u00e9", "'\\\u00e9'"},
      {"\\p{Han}", "the property '\\p{Han}'"},
      {"\\pL", "the property '\\pL'"},
      {"\\p{L", "the property"},
      {"\\p{Greek}+", "the property"},
      {"a(?i)b", "a group that begins with '(?i)b'"},
      {"(?m:a)", "a group that begins with '(?m:a)'"},
      {"(?<name>a)", "a group that begins with"},
      {"(?#a)", "a group that begins with"},
      {"(*UTF)a", "a group that begins with '(*UTF)a'"},
      {"a)", "a ')' without its '('"},
      {"[a", "a '[' without its ']'"},
      {"[]a]", "a class that begins with ']'"},
      {"[^]a]", "a class that begins with ']'"},
      {"[[:alpha:]]", "a '[' within a class"},
      {"[a&&b]", "an intersection of classes"},
      {"[a-[b]]", "an unfinished range"},
      {"[a-", "an unfinished range"},
      {"[z-a]", "a range out of order"},
      {"[a-\\s]", "a range out of order"},
      {"[\\s-a]", "a '-' that makes no range"},
      {"[a-c-e]", "a '-' that makes no range"},
      {"a{,3}", "a '{' that does not begin"},
      {"a{x}", "a '{' that does not begin"},
      {"a{1,2", "a '{' that does not begin"},
      {"a{2}?", "a repetition of a repetition"},
      {"a{2,3}+", "a repetition of a repetition"},
      {"a{2}{3}", "a repetition of a repetition"},
      {"a+*", "a repetition of a repetition"},
      {"a??+", "a repetition of a repetition"},
      {"a\\", "a '\\' with nothing after it"},
      {"[a\\", "a '\\' with nothing after it"},
      {"\\x{110000}", "a bad character number"},
      {"\\x{D800}", "a bad character number"},
      {"\\x{}", "a bad character number"},
      {"\\x4", "a bad character number"},
      {"\\u12g4", "a bad character number"},
      {"\\x{41", "an unfinished \\x{...}"},
      {"(?i:\\p{Lu})", "'\\p{Lu})' within (?i:...)"},
      {"(?i:(a|[\\s]))", "'\\s]))' within (?i:...)"},
      {"(?i:\u00e9)", "'\u00e9)' within (?i:...)"},
      {"(?i:a.)", "'.' within (?i:...)"},
      {"(?i:mass)", "also a ligature"},
      {"(?i:ST)", "also a ligature"},
      {"(?i:off)", "also a ligature"},
      {"(?i:fi|x)", "also a ligature"},
  };
  for (const auto& [pattern, part] : cases) {
    EXPECT_THAT(TranslateRegex(pattern), Fails(Code::kUnsupported, part)) << pattern;
  }
  EXPECT_OK(
      TranslateRegex("(?i:s|t)(s?st)[st]"));  // Not within (?i:...), or not one after the other.
}

// White_Space of Unicode's PropList.txt, against the expression that stands for it, over all of
// Unicode; U+180E is what PCRE2's own \s would add.
TEST(RegexSyntax, SpacesAreExact) {
  const auto is_white_space = [](char32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
  };
  std::string all;
  std::string spaces;
  std::string others;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string utf8;
    if (c < 0x80) {
      utf8 = {static_cast<char>(c)};
    } else if (c < 0x800) {
      utf8 = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    } else if (c < 0x10000) {
      utf8 = {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
              static_cast<char>(0x80 | (c & 63))};
    } else {
      utf8 = {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
              static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    }
    all += utf8;
    (is_white_space(c) ? spaces : others) += utf8;
  }
  const auto matched = [&all](std::string_view pattern) {
    auto regex = Regex::Compile(pattern);
    EXPECT_OK(regex);
    std::string found;
    EXPECT_OK(regex->ForEachMatch(
        all, [&](size_t begin, size_t end) { found.append(all, begin, end - begin); }));
    return found;
  };
  EXPECT_TRUE(matched("\\s") == spaces);
  EXPECT_TRUE(matched("[\\s]+") == spaces);
  EXPECT_TRUE(matched("[^\\S]") == spaces);
  EXPECT_TRUE(matched("\\S+") == others);
  EXPECT_TRUE(matched("[\\S]") == others);
  EXPECT_TRUE(matched("[^\\s]+") == others);
}

}  // namespace
}  // namespace picchio
