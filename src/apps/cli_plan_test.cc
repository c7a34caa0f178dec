// `picchio plan` with the real program.
#include "apps/cli_test_support.h"

namespace picchio {
namespace {

using testing::HasSubstr;

TEST(CliPlan, AShapeWithoutAnythingOnTheDisk) {
  TemporaryFolder folder;
  // Large enough to be measured.
  WriteAll(folder / "large", std::string(64 << 20, 'x'));
  const Outcome outcome =
      Picchio("plan tiny-qwen3 --memory 1 --skew 1 -n 16 -t 1 --seconds 0.05 --path " +
              Shell(folder.path()));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("tok/s, "));
  EXPECT_THAT(outcome.out, HasSubstr("128 of 128 experts (100.0 %)"));
  EXPECT_THAT(outcome.out, HasSubstr("measured on " + (folder / "large").string()));
}

TEST(CliPlan, AModelIsPlannedAsItIsRun) {
  TemporaryFolder folder;
  const std::string trace = Shell(folder / "trace");
  const Outcome run = Picchio("run " + Shell(DemoModel()) +
                              " -p Once -n 20 -t 1 --cache-gb 0.003 -c 512 --ignore-eos --json "
                              "--warm-start off --trace " +
                              trace);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Outcome plan =
      Picchio("plan " + Shell(DemoModel()) +
              " -t 1 --cache-gb 0.003 -c 512 --prompt 1 --json --rate 1 --trace " + trace);
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  ASSERT_OK_AND_ASSIGN(const Json ran, ParseJson(run.out, "run"));
  ASSERT_OK_AND_ASSIGN(const Json planned, ParseJson(plan.out, "plan"));
  for (const char* figure : {"slots", "dense_bytes", "working_bytes", "kv_bytes", "cache_bytes"}) {
    EXPECT_EQ(planned["memory"][figure], ran["stats"]["memory"][figure]) << figure;
  }
  // The trace's prompt is of one token, and so a pass like any other.
  const auto hits = [&](const char* field) {
    return ran["stats"]["prompt"][field].get<double>() +
           ran["stats"]["decode"][field].get<double>();
  };
  EXPECT_NEAR(planned["prediction"]["hit_rate"], hits("hits") / (hits("hits") + hits("misses")),
              1e-9);
}

TEST(CliPlan, WhatIsWrongIsSaid) {
  for (const char* usage :
       {"", "tiny-qwen3 --memory 0", "tiny-qwen3 --rate 1 --path .",
        "tiny-qwen3 --trace x --skew 1", "tiny-qwen3 -n 1", "tiny-qwen3 --trace x -n 5",
        "tiny-qwen3 -n 99999999999999999999", "tiny-qwen3 --memory nan",
        "tiny-qwen3 --memory 1e300", "tiny-qwen3 --rate inf", "tiny-qwen3 --skew -1"}) {
    EXPECT_EQ(Picchio(std::string("plan ") + usage).exit_code, 2) << usage;
  }
  const Outcome small = Picchio("plan qwen3-30b-a3b --memory 1 --rate 1");
  EXPECT_EQ(small.exit_code, 1);
  EXPECT_THAT(small.err, HasSubstr("picchio plan: this needs "));
  EXPECT_THAT(Picchio("plan nonsense").err, HasSubstr("none of the shapes"));
  const Outcome elsewhere =
      Picchio("plan tiny-qwen3 --memory 1 -n 16 -t 1 --seconds 0.05 --path /nowhere/at/all");
  EXPECT_EQ(elsewhere.exit_code, 1);
  EXPECT_THAT(elsewhere.err, HasSubstr("/nowhere/at/all does not exist"));
}

}  // namespace
}  // namespace picchio
