#include "apps/bench/run_flags.h"

#include "support/test_support.h"

namespace picchio {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RunFlags, WordsAsAShellReadsThem) {
  ASSERT_OK_AND_ASSIGN(const RunFlagSet flags,
                       ParseRunFlags("ASYNC_MOE=0  X='a b' -p 'it''s $HOME' --stop \"a\\\"b\\n\"\t"
                                     "one\\ word '' x=y a\"b\"c\n"));
  EXPECT_THAT(flags.environment, ElementsAre("ASYNC_MOE=0", "X=a b"));
  EXPECT_THAT(flags.arguments,
              ElementsAre("-p", "its $HOME", "--stop", "a\"b\\n", "one word", "", "x=y", "abc"));
  ASSERT_OK_AND_ASSIGN(const RunFlagSet none, ParseRunFlags("  "));
  EXPECT_THAT(none.arguments, IsEmpty());
}

TEST(RunFlags, WhatOnlyAShellCouldDoIsRefused) {
  for (const char* text : {"-n 4 | tee x", "-p $HOME", "-p \"$HOME\"", "-f `ls`", "--flat ~/x",
                           "-n 4; rm x", "-f <x", "-p \"`x`\"", "(x)"}) {
    EXPECT_THAT(ParseRunFlags(text), Fails(Code::kInvalidArgument, "no shell reads")) << text;
  }
  EXPECT_OK(ParseRunFlags("-p '$HOME | ~' --flat a~b -p \\$x"));
  EXPECT_THAT(ParseRunFlags("-p 'x"), Fails(Code::kInvalidArgument, "does not end"));
  EXPECT_THAT(ParseRunFlags("-p \"x"), Fails(Code::kInvalidArgument, "does not end"));
  EXPECT_THAT(ParseRunFlags("-p x\\"), Fails(Code::kInvalidArgument, "before nothing"));
  EXPECT_THAT(ParseRunFlags(std::string_view("-p \0x", 5)),
              Fails(Code::kInvalidArgument, "zero byte"));
}

TEST(RunFlags, TheBenchmarksOwnFlagsAreRefused) {
  for (const char* text : {"--json", "-n 4 --ids-out x", "--ids-out=x", "--logits-out x", "-m x",
                           "-mx", "--model=x", "--help"}) {
    EXPECT_THAT(ParseRunFlags(text), Fails(Code::kInvalidArgument, "does not belong here")) << text;
  }
  EXPECT_OK(ParseRunFlags("--min-p 0.1 --json5"));
}

TEST(RunFlags, JoinedSetsAndTheirStores) {
  ASSERT_OK_AND_ASSIGN(const RunFlagSet common, ParseRunFlags("FLAT=/a/x -n 4"));
  ASSERT_OK_AND_ASSIGN(const RunFlagSet own, ParseRunFlags("IO_THREADS=2 --flat /b/y"));
  EXPECT_EQ(StoreOf(common), "/a/x");
  EXPECT_EQ(StoreOf(own), "/b/y");
  const RunFlagSet both = Joined(common, own);
  EXPECT_EQ(both.text, "FLAT=/a/x -n 4 IO_THREADS=2 --flat /b/y");
  EXPECT_THAT(both.environment, ElementsAre("FLAT=/a/x", "IO_THREADS=2"));
  EXPECT_THAT(both.arguments, ElementsAre("-n", "4", "--flat", "/b/y"));
  EXPECT_EQ(StoreOf(both), "/b/y");
  ASSERT_OK_AND_ASSIGN(const RunFlagSet off, ParseRunFlags("--flat=0"));
  EXPECT_EQ(StoreOf(off), "");
  EXPECT_TRUE(both.Has({"-n"}));
  EXPECT_FALSE(both.Has({"-p", "--prompt"}));
}

}  // namespace
}  // namespace picchio
