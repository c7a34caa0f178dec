// All commands: their help, their way from a checkpoint to tokens, what they do without output.
#include <algorithm>

#include "apps/cli_test_support.h"
#include "apps/convert/checkpoint_test_support.h"
#include "base/json.h"
#include "format/npy.h"

namespace picchio {
namespace {

TEST(Cli, HelpAndUsage) {
  EXPECT_EQ(Picchio("--help").exit_code, 0);
  for (const char* command :
       {"convert", "pack", "verify", "diff", "inspect", "tokenize", "run", "perplexity", "doctor",
        "bench io", "bench cache", "bench kernels", "bench run", "plan"}) {
    const Outcome help = Picchio(std::string(command) + " --help");
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, testing::HasSubstr("Example")) << command;
    EXPECT_EQ(Picchio(std::string(command) + " --no-such-flag x").exit_code, 2) << command;
  }
  EXPECT_EQ(Picchio("").exit_code, 2);
  const Outcome unknown = Picchio("nonsense model");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, testing::HasSubstr("there is no command \"nonsense\""));
  const Outcome bench = Picchio("bench nonsense");
  EXPECT_EQ(bench.exit_code, 2);
  EXPECT_EQ(bench.err,
            "picchio bench: there is no command \"nonsense\": picchio bench --help lists them\n");
  EXPECT_EQ(Picchio("run " + Shell(DemoModel()) + " -p x --threads 0").exit_code, 2);
  for (const char* usage : {"--sets avx9", "--weights int5", "--rows 0", "--memory-mib 1"}) {
    EXPECT_EQ(Picchio(std::string("bench kernels ") + usage).exit_code, 2) << usage;
  }
}

TEST(Cli, DemoModelIsWhole) {
  const Outcome verify = Picchio("verify --json " + Shell(DemoModel()));
  EXPECT_EQ(verify.exit_code, 0) << verify.err;
  ASSERT_OK_AND_ASSIGN(const Json report, ParseJson(verify.out, "verify"));
  EXPECT_EQ(report["whole"], true);
}

// The whole way: convert, verify, inspect, run, against reference tokens.
TEST(Cli, FixturesThroughTheCommandGiveTheReferenceTokens) {
  for (const char* fixture : {"qwen3_moe_tiny", "qwen3_moe_tiny_dense", "gpt_oss_tiny"}) {
    const Path golden = TestData("fixtures") / fixture / "golden";
    ASSERT_OK_AND_ASSIGN(const NpyArray prompt, NpyArray::Load(golden / "p24.ids.npy"));
    ASSERT_OK_AND_ASSIGN(const auto prompt_ids, prompt.Values<int32_t>());
    std::string text;
    for (const int32_t id : prompt_ids) text += fmt::format("{} ", id);
    for (const auto& [variant, experts] :
         {std::pair("orig", "--experts bf16"),
          std::pair("int4", "--experts int4 --quantizer absmax")}) {
      TemporaryFolder folder;
      WriteAll(folder / "ids", text);
      const std::string model = Shell(folder / "model");
      const Outcome convert = Picchio("convert " + Shell(FixtureCheckpoint(fixture)) + " " + model +
                                      " --head bf16 --dense bf16 " + experts);
      ASSERT_EQ(convert.exit_code, 0) << convert.err;
      EXPECT_EQ(Picchio("verify " + model).exit_code, 0);
      EXPECT_EQ(Picchio("inspect " + model).exit_code, 0);
      const Outcome run = Picchio("run " + model + " --ids " + Shell(folder / "ids") +
                                  " -n 32 --temp 0 --ignore-eos --compute f32");
      ASSERT_OK_AND_ASSIGN(
          const NpyArray tokens,
          NpyArray::Load(golden / fmt::format("p24.{}.greedy_tokens.npy", variant)));
      ASSERT_OK_AND_ASSIGN(const auto expected, tokens.Values<int32_t>());
      std::string expected_text;
      for (const int32_t id : expected) expected_text += fmt::format("{}\n", id);
      EXPECT_EQ(run.out, expected_text) << fixture << " " << variant;
    }
  }
}

TEST(Cli, PerplexityOfTheDemoModel) {
  TemporaryFolder folder;
  WriteAll(folder / "text", ReadAll(TestData("demo/heldout.txt")).substr(0, 6000));
  const Outcome outcome =
      Picchio("perplexity " + Shell(DemoModel()) + " " + Shell(folder / "text") + " -c 256 --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ASSERT_OK_AND_ASSIGN(const Json report, ParseJson(outcome.out, "perplexity"));
  // Its training log says 4.07 nats on text of this kind.
  EXPECT_GT(report["nats_per_token"], 3.5);
  EXPECT_LT(report["nats_per_token"], 4.6);
}

TEST(Cli, LostOutputIsAFailure) {
  TemporaryFolder folder;
  const std::string err = Shell(folder / "err");
  for (const char* command :
       {"verify ", "verify --json ", "inspect ", "inspect --json ", "tokenize -p x ",
        "tokenize --json -p x ", "run -p x -n 2 ", "run --json -p x -n 2 "}) {
    const std::string line =
        Shell(BuildFile("picchio")) + " " + command + Shell(DemoModel()) + " < /dev/null ";
    // A full disk; no output at all, which must not become a file of the model's either.
    for (const char* out : {" > /dev/full", " >&-"}) {
      EXPECT_EQ(WEXITSTATUS(std::system((line + out + " 2> " + err).c_str())), 1) << command << out;
      const std::string message = WithoutNotes(WithoutProgress(ReadAll(folder / "err")));
      EXPECT_THAT(message, testing::HasSubstr("cannot write to standard output")) << command;
      EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1) << message;
    }
    EXPECT_EQ(WEXITSTATUS(std::system((line + "> /dev/null <&- 2>&-").c_str())), 0) << command;
  }
  for (const char* command : {" --help", " --version", " run --help"}) {
    const std::string line = Shell(BuildFile("picchio")) + command + " > /dev/full 2> " + err;
    EXPECT_EQ(WEXITSTATUS(std::system(line.c_str())), 1) << command;
    EXPECT_THAT(ReadAll(folder / "err"), testing::HasSubstr("cannot write to standard output"));
  }
  EXPECT_EQ(Picchio("verify " + Shell(DemoModel())).exit_code, 0);
  EXPECT_EQ(Picchio("run " + Shell(DemoModel()) + " -p x -n 1 --ids-out /dev/null").exit_code, 1);
}

TEST(Cli, OnlyTheModelsOwnFilesTakePart) {
  TemporaryFolder folder;
  std::filesystem::copy(DemoModel(), folder / "model");
  const std::string run =
      "run " + Shell(folder / "model") + " -p 'Once upon' -n 8 --temp 0 --repeat-penalty 1";
  const Outcome whole = Picchio(run);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const std::string config = ReadAll(folder / "model" / "config.json");
  std::string other = config;
  other.replace(other.find("\"norm_topk_prob\": true"), 22, "\"norm_topk_prob\":false");
  WriteAll(folder / "model" / "config.json", other);
  const Outcome changed = Picchio(run);
  EXPECT_EQ(changed.exit_code, 1);
  EXPECT_THAT(changed.err, testing::HasSubstr("config.json"));
  WriteAll(folder / "model" / "config.json", config);
  std::filesystem::remove(folder / "model" / "generation_config.json");
  EXPECT_EQ(Picchio(run).exit_code, 1);
}

}  // namespace
}  // namespace picchio
