// `picchio bench run` with the real program and the demo model.
#include "apps/cli_test_support.h"

namespace picchio {
namespace {

using testing::HasSubstr;

TEST(CliBenchRun, ComparesAndWritesItsReports) {
  TemporaryFolder folder;
  const std::string bench = "bench run " + Shell(DemoModel()) +
                            " --flags \"-t 1 -n 4 --temp 0\" --a \"--io buffered\" "
                            "--b \"IO_THREADS=2 --ecap 4\" --pairs 2 --json --html " +
                            Shell(folder / "page.html");
  const Outcome outcome = Picchio(bench + " --drop-caches");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ASSERT_OK_AND_ASSIGN(const Json report, ParseJson(outcome.out, "bench run"));
  EXPECT_EQ(report["tokens"], 4);
  EXPECT_EQ(report["pairs"], 2);
  EXPECT_TRUE(report["cold"].is_string());
  EXPECT_THAT(report["b_flags"].get<std::string>(), HasSubstr("IO_THREADS=2 --ecap 4"));
  EXPECT_EQ(report["measures"][0]["measure"], "decode_tokens_per_second");
  EXPECT_GT(report["measures"][0]["ratio"], 0);
  EXPECT_THAT(ReadAll(folder / "page.html"), HasSubstr("Two ways of running a model"));
}

TEST(CliBenchRun, WhatCannotBeComparedIsSaid) {
  const std::string bench = "bench run " + Shell(DemoModel()) + " ";
  for (const char* usage : {"--a --json", "--b \"-p 'x\"", "--a x -p 4", "--a x -o json", "-p x",
                            "-o xml", "--pairs 0 --a x"}) {
    EXPECT_EQ(Picchio(bench + usage).exit_code, 2) << usage;
  }
  const Outcome failing = Picchio(bench + "--a \"-n 2 --ecap 1000000\" --b \"-n 2 --ctx 9999999\"");
  EXPECT_EQ(failing.exit_code, 1);
  EXPECT_THAT(failing.err,
              HasSubstr("picchio bench run: pair 1, B: the run ended with exit code 1; "
                        "it said \"picchio run: the context is 9999999"));
  const Outcome differing = Picchio(bench + "--flags \"-n 8 --temp 3\" --b \"--seed 5\"");
  EXPECT_EQ(differing.exit_code, 1);
  EXPECT_THAT(differing.err, HasSubstr("the tokens of B differ"));
  EXPECT_EQ(Picchio(bench + "--json").exit_code, 1);
}

TEST(CliBenchRun, SpeaksLlamaBenchsForm) {
  const Outcome outcome = Picchio("bench run -m " + Shell(DemoModel()) +
                                  " -t 1,2 -p 8 -n 2 -r 2 -o jsonl --flags \"--ecap 4\"");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::vector<int> threads;
  for (std::string line; std::getline(lines, line);) {
    ASSERT_OK_AND_ASSIGN(const Json test, ParseJson(line, "line"));
    EXPECT_EQ(test["samples_ns"].size(), 2U);
    threads.push_back(test["n_threads"]);
  }
  EXPECT_THAT(threads, testing::ElementsAre(1, 1, 2, 2));
  const Outcome wrong = Picchio("bench run -m " + Shell(DemoModel()) + " --flags \"--stop x\"");
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("--flags takes flags that say how a model is run"));
}

}  // namespace
}  // namespace picchio
