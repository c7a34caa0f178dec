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

// Threads and slots as a run of the same flags in the same environment has them.
TEST(CliPlan, FlagsAndTheEnvironmentCountAsForARun) {
  const std::string model = Shell(DemoModel());
  struct Case {
    const char* environment;
    const char* flags;
    int threads;
    int slots;
  };
  for (const Case& c : {Case{"ECAP=3 OMP_NUM_THREADS=1", "", 1, 12},
                        Case{"ECAP=3 OMP_NUM_THREADS=1,4", "-t 2 --ecap 5 --prefill-span 9", 2, 20},
                        Case{"ECAP=3 OMP_NUM_THREADS=2", "-t 1 --cache-gb 0.003", 1, 0}}) {
    const Outcome run = Picchio(
        "run " + model + " -p Once -n 2 -c 512 --json --warm-start off " + c.flags, c.environment);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const Outcome plan = Picchio(
        "plan " + model + " -c 512 --prompt 1 -n 4 --json --rate 1 --seconds 0.01 " + c.flags,
        c.environment);
    ASSERT_EQ(plan.exit_code, 0) << plan.err;
    ASSERT_OK_AND_ASSIGN(const Json ran, ParseJson(run.out, "run"));
    ASSERT_OK_AND_ASSIGN(const Json planned, ParseJson(plan.out, "plan"));
    EXPECT_EQ(planned["threads"], c.threads);
    EXPECT_EQ(planned["memory"]["slots"], ran["stats"]["memory"]["slots"]);
    if (c.slots > 0) {
      EXPECT_EQ(planned["memory"]["slots"], c.slots);
    }
    EXPECT_EQ(planned["memory"]["working_bytes"], ran["stats"]["memory"]["working_bytes"]);
    EXPECT_EQ(planned["position"], 2);
    EXPECT_EQ(planned["text"], "4 tokens behind a prompt of 1");
  }
  for (const char* environment : {"OMP_NUM_THREADS=all", "ECAP=many"}) {
    const Outcome refused = Picchio("plan " + model + " --rate 1", environment);
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(refused.err, HasSubstr("picchio plan: the environment variable "));
  }
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
