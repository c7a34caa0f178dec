#include "apps/bench/run_llama_form.h"

#include <algorithm>
#include <sstream>

#include "apps/cli_test_support.h"

namespace picchio {
namespace {

using testing::HasSubstr;
using testing::Not;

LlamaBenchRun Known() {
  return {.model = "a \"b\", c",
          .model_type = "Qwen3MoeForCausalLM",
          .model_bytes = uint64_t{3} << 30,
          .num_parameters = 5'000'000'000,
          .span = 512,
          .num_threads = 4,
          .tests = {{.prompt_tokens = 10,
                     .time = "2026-01-31T12:00:00Z",
                     // 5, 10 and 20 tokens a second.
                     .samples_ns = {2'000'000'000, 1'000'000'000, 500'000'000}},
                    {.text_tokens = 4, .time = "", .samples_ns = {2'000'000'000}}}};
}

TEST(LlamaBench, FieldsAndTheirValues) {
  const std::string text = LlamaBenchText({Known()}, LlamaBenchFormat::kJsonl);
  std::istringstream lines(text);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  // Its order too: scripts that cut at fields find them.
  EXPECT_THAT(line, testing::StartsWith("{\"build_commit\": "));
  EXPECT_LT(line.find("n_prompt"), line.find("avg_ns"));
  ASSERT_OK_AND_ASSIGN(const Json first, ParseJson(line, "first"));
  EXPECT_EQ(first["model_filename"], "a \"b\", c");
  EXPECT_EQ(first["n_prompt"], 10);
  EXPECT_EQ(first["n_gen"], 0);
  EXPECT_EQ(first["n_threads"], 4);
  EXPECT_EQ(first["avg_ns"], 1'166'666'667);
  // Deviations 5/6, -1/6 and -2/3 seconds: sqrt(42/36 / 2).
  EXPECT_EQ(first["stddev_ns"], 763'762'616);
  EXPECT_NEAR(first["avg_ts"], 35.0 / 3, 1e-9);
  EXPECT_NEAR(first["stddev_ts"], 7.63762616, 1e-6);
  EXPECT_EQ(first["samples_ns"].size(), 3U);
  EXPECT_EQ(first["samples_ts"][2], 20.0);
  ASSERT_TRUE(std::getline(lines, line));
  ASSERT_OK_AND_ASSIGN(const Json second, ParseJson(line, "second"));
  EXPECT_EQ(second["n_gen"], 4);
  EXPECT_EQ(second["avg_ts"], 2.0);
  EXPECT_EQ(second["stddev_ts"], 0.0);
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(LlamaBench, TheOtherFormats) {
  ASSERT_OK_AND_ASSIGN(const Json list,
                       ParseJson(LlamaBenchText({Known(), Known()}, LlamaBenchFormat::kJson), "x"));
  EXPECT_EQ(list.size(), 4U);
  const std::string csv = LlamaBenchText({Known()}, LlamaBenchFormat::kCsv);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_THAT(csv, testing::StartsWith("build_commit,cpu_info,"));
  EXPECT_THAT(csv, HasSubstr(",\"a \"\"b\"\", c\","));
  EXPECT_THAT(csv, Not(HasSubstr("samples")));
  EXPECT_THAT(LlamaBenchText({Known()}, LlamaBenchFormat::kMd),
              HasSubstr("| Qwen3MoeForCausalLM | 3.00 GiB | 5.00 B | picchio | 4 | pp10 | 11.67 ± "
                        "7.64 |\n"));
}

TEST(LlamaBench, MeasuresTheDemoModel) {
  EngineOptions options{.num_threads = 1};
  options.memory.slots_per_layer = 8;
  ASSERT_OK_AND_ASSIGN(
      const LlamaBenchRun run,
      RunLlamaBench(DemoModel(), options, {.prompts = {0, 12}, .texts = {3, 1}, .repetitions = 2},
                    kGoOn));
  ASSERT_EQ(run.tests.size(), 3U);
  EXPECT_EQ(run.tests[0].Name(), "pp12");
  EXPECT_EQ(run.tests[1].Name(), "tg3");
  EXPECT_EQ(run.tests[2].Name(), "tg1");
  for (const LlamaBenchTest& test : run.tests) {
    ASSERT_EQ(test.samples_ns.size(), 2U);
    EXPECT_GT(*std::ranges::min_element(test.samples_ns), 0U);
  }
  EXPECT_EQ(run.num_threads, 1);
  EXPECT_GT(run.num_parameters, 1'000'000U);
  EXPECT_THAT(RunLlamaBench(DemoModel(), options, {.prompts = {0}, .texts = {}}, kGoOn),
              Fails(Code::kInvalidArgument, "nothing to measure"));
  const std::atomic<bool> stop{true};
  EXPECT_THAT(RunLlamaBench(DemoModel(), options, {.prompts = {4}, .texts = {}}, stop),
              Fails(Code::kCancelled, "stopped"));
}

}  // namespace
}  // namespace picchio
