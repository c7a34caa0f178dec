#include "apps/bench/run_benchmark.h"

#include <sstream>

#include "apps/bench/fake_program_test_support.h"
#include "apps/bench/run_bench_report.h"
#include "apps/bench/run_cold_start.h"

namespace picchio {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RunFlagSet Flags(const std::string& text) { return ParseRunFlags(text).value(); }

// Writes down its arguments; its decode rate is what the environment says times the number of the
// run, so that medians and ratios are known.
std::string Counting(const std::string& ids = "7, 8, 9") {
  std::string report = FakeReport(ids, "@");
  return "echo \"$* RATE=$RATE\" >> \"$0.log\"\nn=$(wc -l < \"$0.log\")\n"
         "echo '" +
         report + "' | sed \"s/@/$((RATE * n))/\"\n";
}

std::vector<std::string> Lines(const Path& file) {
  std::istringstream text(ReadAll(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST(RunBenchmark, RunsInTurnAndComparesPairs) {
  const TemporaryFolder folder;
  const Path program = FakeProgram(folder, Counting());
  ASSERT_OK_AND_ASSIGN(
      const RunBenchReport report,
      RunRunBench({.program = program,
                   .model = folder / "model",
                   .a = Flags("RATE=100 -n 3"),
                   .b = Flags("RATE=200 -p 'Once upon a time' --warm-start on -n 3"),
                   .pairs = 6},
                  kGoOn));
  // A B, B A, and so on, each with what was left out.
  const std::string model = (folder / "model").string();
  const std::vector<std::string> lines = Lines(program.string() + ".log");
  ASSERT_EQ(lines.size(), 12U);
  std::string order;
  for (const std::string& line : lines) {
    const bool is_b = line.ends_with("RATE=200");
    order += is_b ? 'B' : 'A';
    EXPECT_EQ(line, "run " + model + " --json " +
                        (is_b ? "-p Once upon a time --warm-start on -n 3 RATE=200"
                              : "-n 3 -p Once upon a time --warm-start off RATE=100"));
  }
  EXPECT_EQ(order, "ABBAABBAABBA");
  EXPECT_EQ(report.a_flags, "RATE=100 -n 3 -p 'Once upon a time' --warm-start off");
  EXPECT_THAT(report.a.front().ids, ElementsAre(7, 8, 9));

  const std::vector<RunComparison> rows = Compare(report);
  const RunComparison& decode = rows.front();
  EXPECT_EQ(decode.measure->key, "decode_tokens_per_second");
  // A is at places 1, 4, 5, 8, 9, 12 and B at 2, 3, 6, 7, 10, 11.
  EXPECT_EQ(decode.a, 100 * 6.5);
  EXPECT_EQ(decode.b, 200 * 6.5);
  // Ratios 2 * (2/1, 3/4, 6/5, 7/8, 10/9, 11/12).
  ASSERT_TRUE(decode.ratio && decode.interval);
  EXPECT_DOUBLE_EQ(*decode.ratio, (10.0 / 9 + 11.0 / 12));
  EXPECT_DOUBLE_EQ(decode.interval->low, 1.5);
  EXPECT_DOUBLE_EQ(decode.interval->high, 4);

  for (const RunComparison& row : rows) {
    if (row.measure->key == "decode_hits") {
      EXPECT_EQ(row.a, 75);
    }
    if (row.measure->key == "decode_read_bytes") {
      EXPECT_EQ(row.b, 5);
    }
    // Nothing to divide by.
    if (row.measure->key == "prefill_wait_seconds") {
      EXPECT_FALSE(row.ratio);
    }
    // The fake's report has none.
    EXPECT_NE(row.measure->key, "decode_read_seconds");
  }
  const std::string text = RunBenchText(report);
  EXPECT_THAT(text, HasSubstr("decode exposed wait   0.500  0.500      s  1.000  1.000 to 1.000"));
  EXPECT_THAT(text, HasSubstr("B decodes 2.028 times as fast as A (95 % interval 1.500 to 4.000): "
                              "a difference."));
  const Json json = RunBenchJson(report);
  EXPECT_EQ(json["tokens"], 3);
  EXPECT_EQ(json["measures"][0]["a_samples"],
            Json::parse("[100.0, 400.0, 500.0, 800.0, 900.0, 1200.0]"));
  EXPECT_EQ(json["measures"][0]["ratio_interval_95"]["high"], 4);
  EXPECT_EQ(json["cold"], nullptr);
  const std::string html = RunBenchHtml(report);
  EXPECT_THAT(html, HasSubstr("decode, pair by pair"));
  EXPECT_THAT(html, HasSubstr("<td>decode bytes read</td><td>5.000</td>"));
  EXPECT_TRUE(html.ends_with("</html>\n"));
}

TEST(RunBenchmark, FewPairsAndEqualRatesProveNothing) {
  const TemporaryFolder folder;
  const Path program = FakeProgram(folder, "echo '" + FakeReport("1", "4") + "'");
  RunBenchOptions options{.program = program, .model = folder.path(), .pairs = 5};
  ASSERT_OK_AND_ASSIGN(RunBenchReport report, RunRunBench(options, kGoOn));
  EXPECT_FALSE(Compare(report).front().interval);
  EXPECT_THAT(RunBenchText(report), HasSubstr("5 pairs are too few"));
  EXPECT_THAT(RunBenchText(report), HasSubstr("fewer than 6 pairs"));
  options.pairs = 6;
  ASSERT_OK_AND_ASSIGN(report, RunRunBench(options, kGoOn));
  EXPECT_THAT(RunBenchVerdict(report), HasSubstr("show no difference"));
}

TEST(RunBenchmark, OtherTokensFailWithTheFirstDifference) {
  const TemporaryFolder folder;
  const auto compare = [&](const std::string& a, const std::string& b) {
    const Path program =
        FakeProgram(folder, "case \"$*\" in *--seed*) echo '" + FakeReport(b, "4") +
                                "';; *) echo '" + FakeReport(a, "4") + "';; esac");
    return RunRunBench({.program = program, .model = folder.path(), .b = Flags("--seed 2")}, kGoOn);
  };
  EXPECT_OK(compare("1, 2, 3", "1, 2, 3"));
  EXPECT_THAT(compare("1, 2, 3", "1, 5, 3"),
              Fails(Code::kCorrupt,
                    "pair 1: the tokens of B differ from those of the first run of "
                    "A at position 1: 5, and there 2; if no flag means them to"));
  EXPECT_THAT(compare("1, 2, 3", "1, 2"), Fails(Code::kCorrupt, "position 2: none, and there 3"));
}

TEST(RunBenchmark, AFailureSaysWhichRunItWas) {
  const TemporaryFolder folder;
  const Path program = FakeProgram(folder, Counting() +
                                               "if [ $n = 4 ]; then echo oops >&2; "
                                               "exit 1; fi");
  EXPECT_THAT(
      RunRunBench(
          {.program = program, .model = folder.path(), .a = Flags("RATE=1"), .b = Flags("RATE=1")},
          kGoOn),
      Fails(Code::kUnavailable,
            "pair 2, A: the run ended with exit code 1; it said "
            "\"oops\""));
  const Path other = FakeProgram(folder, "echo hello");
  EXPECT_THAT(RunRunBench({.program = other, .model = folder.path()}, kGoOn),
              Fails(Code::kCorrupt, "pair 1, A: the run's report"));
}

TEST(RunBenchmark, ColdRunsEmptyThePageCacheAndSayHow) {
  const TemporaryFolder folder;
  const Path model = folder / "model";
  std::filesystem::create_directory(model);
  WriteAll(model / "weights", "x");
  WriteAll(folder / "control", "");
  // What the run before left in the control file is seen by the next one.
  const Path program = FakeProgram(
      folder, "cat \"" + (folder / "control").string() + "\" >> \"$0.log\"\n: > \"" +
                  (folder / "control").string() + "\"\necho '" + FakeReport("1", "4") + "'");
  RunBenchOptions options{.program = program,
                          .model = model,
                          .pairs = 2,
                          .cold = true,
                          .drop_control = folder / "control"};
  ASSERT_OK_AND_ASSIGN(RunBenchReport report, RunRunBench(options, kGoOn));
  EXPECT_EQ(report.cold, "the kernel's whole page cache");
  EXPECT_EQ(ReadAll(program.string() + ".log"), "1\n1\n1\n1\n");
  options.drop_control = folder / "none";
  ASSERT_OK_AND_ASSIGN(report, RunRunBench(options, kGoOn));
  EXPECT_THAT(report.cold, HasSubstr("the 1 files of the model, by posix_fadvise"));
  EXPECT_FALSE(SomethingExists(folder / "none"));
}

// Who else runs the model makes temporary files in its folder, and renames them.
TEST(RunColdStart, AFileThatHasGoneIsPassedOver) {
  TemporaryFolder folder;
  WriteAll(folder / "weights", "x");
  WriteAll(folder / "uses.picchio-tmp", "x");
  const std::vector<Path> files = FilesToForget(folder.path(), {});
  ASSERT_EQ(files.size(), 2U);
  std::filesystem::remove(folder / "uses.picchio-tmp");
  ASSERT_OK_AND_ASSIGN(const std::string how, ForgetFiles(files, folder / "none"));
  EXPECT_THAT(how, HasSubstr("the 1 files of the model"));
  std::filesystem::remove(folder / "weights");
  std::filesystem::create_directory(folder / "weights");
  EXPECT_THAT(ForgetFiles(files, folder / "none"), Fails(Code::kInvalidArgument, "is a folder"));
}

TEST(RunSample, ReadsUnderWayAreThoseWaitedForAndTheHidden) {
  std::string report = FakeReport("1", "4");
  const std::string field = "\"storage_wait_seconds\": 0.5";
  report.insert(report.find(field), "\"hidden_read_seconds\": 1.25, ");
  ASSERT_OK_AND_ASSIGN(const RunSample sample, ParseRunSample(report));
  for (size_t i = 0; i < RunMeasures().size(); ++i) {
    if (RunMeasures()[i].key == "decode_read_seconds") {
      EXPECT_EQ(sample.values[i], 1.75);
    } else if (RunMeasures()[i].key == "prefill_read_seconds") {
      EXPECT_EQ(sample.values[i], std::nullopt);
    }
  }
}

TEST(RunSample, WhatIsMissingIsNamed) {
  const auto without = [](const std::string& part, const std::string& instead) {
    std::string report = FakeReport("1, 2", "4");
    report.replace(report.find(part), part.size(), instead);
    return ParseRunSample(report);
  };
  ASSERT_OK(ParseRunSample(FakeReport("1, 2", "4")));
  EXPECT_THAT(ParseRunSample(""), Fails(Code::kCorrupt, "the run's report"));
  EXPECT_THAT(ParseRunSample("[]"), Fails(Code::kCorrupt, "no object"));
  EXPECT_THAT(without("[1, 2]", "[1, -2]"), Fails(Code::kCorrupt, "no list of ids"));
  EXPECT_THAT(without("\"ids\"", "\"idz\""), Fails(Code::kCorrupt, "no list of ids"));
  EXPECT_THAT(without("\"prompt_tokens\": 5", "\"prompt_tokens\": 0"),
              Fails(Code::kCorrupt, "no number of prompt tokens"));
  EXPECT_THAT(without("\"stats\"", "\"status\""), Fails(Code::kCorrupt, "no stats"));
  EXPECT_THAT(without("\"tokens_per_second\": 4", "\"tokens_per_second\": null"),
              Fails(Code::kCorrupt, "no decode tok/s"));
  EXPECT_THAT(without("max_tokens", "cancelled"), Fails(Code::kCancelled, "stopped"));
}

}  // namespace
}  // namespace picchio
