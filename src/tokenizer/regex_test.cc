#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <vector>

#include "support/test_support.h"

namespace picchio {
namespace {

using Strings = std::vector<std::string>;

Strings Matches(std::string_view pattern, std::string_view text) {
  auto regex = Regex::Compile(pattern);
  EXPECT_OK(regex);
  Strings matches;
  if (!regex.has_value()) return matches;
  EXPECT_OK(regex->ForEachMatch(text, [&](size_t begin, size_t end) {
    matches.emplace_back(text.substr(begin, end - begin));
  }));
  return matches;
}

TEST(Regex, LeftmostMatchesInOrder) {
  EXPECT_EQ(Matches("a+", ""), Strings{});
  EXPECT_EQ(Matches("a+", "xyz"), Strings{});
  EXPECT_EQ(Matches("a+", "aa b a"), (Strings{"aa", "a"}));
  EXPECT_EQ(Matches("a|ab", "ab"), (Strings{"a"}));  // Alternatives in order, not the longest.
  EXPECT_EQ(Matches("\\p{Lu}\\p{Ll}*", "\u00c9cole \u0416\u0443K"),
            (Strings{"\u00c9cole", "\u0416\u0443", "K"}));
  EXPECT_EQ(Matches("(?<=a)b", "bab"), (Strings{"b"}));
  EXPECT_EQ(Matches(".+", "one\r\ntwo"), (Strings{"one\r", "two"}));  // Only \n ends a line.
  EXPECT_EQ(Matches("(?i:'s|'d)", "'S 'D 's 'x"), (Strings{"'S", "'D", "'s"}));
  EXPECT_EQ(Matches("(?i:s)", "s S \u017f"),
            (Strings{"s", "S", "\u017f"}));  // Simple case folding.
}

TEST(Regex, WhatDoesNotCompile) {
  EXPECT_THAT(Regex::Compile("(a"), Fails(Code::kCorrupt, "does not compile: missing closing"));
  EXPECT_THAT(Regex::Compile("*a"), Fails(Code::kCorrupt, "does not compile"));
  EXPECT_THAT(Regex::Compile("(?<=a*)b"), Fails(Code::kCorrupt, "lookbehind"));
  EXPECT_THAT(Regex::Compile("\\w"), Fails(Code::kUnsupported, "'\\w'"));
  for (const char* empty : {"", "a*", "a|", "(?=a)", "(a?)(b?)"}) {
    EXPECT_THAT(Regex::Compile(empty), Fails(Code::kUnsupported, "empty string")) << empty;
  }
  EXPECT_THAT(Regex::Compile(std::string(20'000, 'a')), Fails(Code::kUnsupported, "20000 bytes"));
}

// The fast path, where the library has it at all.
TEST(Regex, RunsAsMachineCodeWherePossible) {
  uint32_t has_jit = 0;
  pcre2_config(PCRE2_CONFIG_JIT, &has_jit);
  ASSERT_OK_AND_ASSIGN(const Regex regex, Regex::Compile("a+"));
  EXPECT_EQ(regex.is_compiled_to_machine_code(), has_jit == 1);
}

// Machine code has 32 KiB for its stack and this needs an entry per letter: interpreted instead.
TEST(Regex, DeepBacktrackingIsInterpreted) {
  const std::string text = std::string(100'000, 'a') + 'c';
  EXPECT_EQ(Matches("(?:a|b)+[bc]", text), std::vector<std::string>{text});
}

// 2^50 ways to divide the letters; the library counts its steps.
TEST(Regex, EndlessBacktrackingIsStopped) {
  ASSERT_OK_AND_ASSIGN(const Regex regex, Regex::Compile("(?:a+)+[bc]"));
  EXPECT_THAT(regex.ForEachMatch("ab " + std::string(50, 'a'), [](size_t, size_t) {}),
              Fails(Code::kUnsupported, "gave up after byte 2 of the text: match limit exceeded"));
}

}  // namespace
}  // namespace picchio
