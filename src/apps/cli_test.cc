// The command as its users meet it: the built program, its output, its exit codes.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "apps/convert/checkpoint_test_support.h"
#include "apps/run/store_models_test_support.h"
#include "base/json.h"
#include "format/npy.h"
#include "support/test_support.h"

namespace picchio {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

std::string Shell(const Path& path) { return "'" + path.string() + "'"; }

// Runs `picchio ARGUMENTS` in a shell, with no standard input unless `arguments` says where from.
Outcome Picchio(const std::string& arguments, const std::string& before = "") {
  TemporaryFolder folder;
  const std::string input = arguments.find('<') == std::string::npos ? " < /dev/null" : "";
  const std::string command = before + " " + Shell(BuildFile("picchio")) + " " + arguments + input +
                              " > " + Shell(folder / "out") + " 2> " + Shell(folder / "err");
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, ReadAll(folder / "out"),
          ReadAll(folder / "err")};
}

Path DemoModel() { return TestData("../../models/demo"); }

TEST(Cli, HelpAndUsage) {
  EXPECT_EQ(Picchio("--help").exit_code, 0);
  for (const char* command :
       {"convert", "pack", "verify", "diff", "inspect", "tokenize", "run", "perplexity"}) {
    const Outcome help = Picchio(std::string(command) + " --help");
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, testing::HasSubstr("Example")) << command;
    EXPECT_EQ(Picchio(std::string(command) + " --no-such-flag x").exit_code, 2) << command;
  }
  EXPECT_EQ(Picchio("").exit_code, 2);
  EXPECT_EQ(Picchio("nonsense").exit_code, 2);
  EXPECT_EQ(Picchio("run " + Shell(DemoModel()) + " -p x --threads 0").exit_code, 2);
}

TEST(Cli, DemoModelIsWhole) {
  const Outcome verify = Picchio("verify --json " + Shell(DemoModel()));
  EXPECT_EQ(verify.exit_code, 0) << verify.err;
  ASSERT_OK_AND_ASSIGN(const Json report, ParseJson(verify.out, "verify"));
  EXPECT_EQ(report["whole"], true);
}

TEST(Cli, RunWritesTextAndTheSameTextAgain) {
  const std::string arguments =
      "run " + Shell(DemoModel()) + " -p 'Once upon a time' -n 40 --temp 0.8 --seed 3";
  const Outcome first = Picchio(arguments);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_GT(first.out.size(), 80u);
  for (const char* other :
       {" -t 1", " -t 3", " --ecap 1", " --cache-gb 0.001", " --prefill-span 1"}) {
    EXPECT_EQ(Picchio(arguments + other).out, first.out) << other;
  }
  EXPECT_EQ(Picchio(arguments, "ECAP=2 OMP_NUM_THREADS=2 IO_THREADS=1").out, first.out);
  EXPECT_NE(Picchio(arguments + " --seed 4").out, first.out);
}

// The storage part of a run's report.
Json StorageOf(const std::string& arguments, const std::string& environment = "") {
  const Outcome run = Picchio(
      "run " + Shell(DemoModel()) + " -p Once -n 2 --temp 0 --json " + arguments, environment);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  auto report = ParseJson(run.out, "run");
  EXPECT_OK(report);
  return (*report)["stats"]["storage"];
}

TEST(Cli, AFlagOfTheStoreBeatsTheEnvironment) {
  TemporaryFolder folder;
  const TestStore store = StoreWriter(DemoModel()).Make(3);
  std::string bytes = store.Bytes();
  WriteAll(folder / "store", bytes);
  bytes[64] = static_cast<char>(bytes[64] ^ 1);
  WriteAll(folder / "damaged", bytes);
  const std::string good = Shell(folder / "store");
  const std::string bad = Shell(folder / "damaged");
  const auto serves = [&](const Json& storage) {
    return storage["tiers"].size() == 2 && storage["tiers"][0]["served"] > 0;
  };
  EXPECT_TRUE(serves(StorageOf("--flat " + good)));
  EXPECT_TRUE(serves(StorageOf("--flat-verify", "FLAT=" + good)));
  EXPECT_TRUE(serves(StorageOf("", "FLAT_VERIFY=1 FLAT=" + good)));
  EXPECT_TRUE(serves(StorageOf("--flat " + good, "FLAT=0")));
  const Json off = StorageOf("--flat 0", "FLAT=" + good);
  EXPECT_EQ(off["tiers"].size(), 1u);
  EXPECT_EQ(off["store_refused"], nullptr);
  const Json refused = StorageOf("", "FLAT=" + bad);
  EXPECT_EQ(refused["tiers"].size(), 1u);
  EXPECT_THAT(refused["store_refused"].get<std::string>(),
              testing::HasSubstr("damaged superblock"));
  const Outcome wrong = Picchio("run " + Shell(DemoModel()) + " -p x -n 1", "FLAT_VERIFY=yes");
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, testing::HasSubstr("FLAT_VERIFY is \"yes\", expected 0 or 1"));
}

TEST(Cli, RunReportsAsJson) {
  TemporaryFolder folder;
  const Outcome run = Picchio(
      "run " + Shell(DemoModel()) + " -p 'The king said' -n 5 --temp 0 --json" + " --ids-out " +
      Shell(folder / "ids") + " --logits-out " + Shell(folder / "logits.npy"));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  ASSERT_OK_AND_ASSIGN(const Json report, ParseJson(run.out, "run"));
  EXPECT_EQ(report["finish_reason"], "max_tokens");
  ASSERT_EQ(report["ids"].size(), 5u);
  EXPECT_EQ(report["stats"]["decode"]["tokens"], 4);
  EXPECT_GT(report["stats"]["prompt"]["reads"], 0);
  std::string ids;
  for (const Json& id : report["ids"]) ids += fmt::format("{}\n", id.get<int>());
  EXPECT_EQ(ReadAll(folder / "ids"), ids);

  // Prompt positions + n - 1 rows; row T - 1 chose the first token.
  ASSERT_OK_AND_ASSIGN(const NpyArray logits, NpyArray::Load(folder / "logits.npy"));
  const uint64_t prompt_tokens = report["prompt_tokens"];
  EXPECT_THAT(logits.shape(), testing::ElementsAre(prompt_tokens + 4, 4096));
  ASSERT_OK_AND_ASSIGN(const auto values, logits.Values<float>());
  for (size_t i = 0; i < 5; ++i) {
    const auto row = values.subspan((prompt_tokens - 1 + i) * 4096, 4096);
    EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), report["ids"][i].get<int>());
  }
}

TEST(Cli, StopStringsAndBiasesAndStandardInput) {
  const std::string run = "run " + Shell(DemoModel()) + " --temp 0 -n 60 ";
  const Outcome free = Picchio(run + "-p 'Once upon a time'");
  const Outcome stopped = Picchio(run + "-p 'Once upon a time' --stop ' the'");
  EXPECT_EQ(stopped.exit_code, 0);
  EXPECT_EQ(stopped.out.find(" the"), std::string::npos);
  EXPECT_EQ(free.out.rfind(stopped.out.substr(0, stopped.out.size() - 1), 0), 0u);

  TemporaryFolder folder;
  WriteAll(folder / "prompt", "Once upon a time");
  EXPECT_EQ(Picchio(run + "< " + Shell(folder / "prompt")).out, free.out);
  EXPECT_EQ(Picchio(run + "-f " + Shell(folder / "prompt")).out, free.out);
  const Outcome ids = Picchio("tokenize --ids " + Shell(DemoModel()) + " -p 'Once upon a time'");
  WriteAll(folder / "ids", ids.out);
  EXPECT_EQ(Picchio(run + "--ids " + Shell(folder / "ids")).out, free.out);

  const Outcome only = Picchio(run + "-p 'Once' --json -n 3 --logit-bias 262:1000");
  ASSERT_OK_AND_ASSIGN(const Json report, ParseJson(only.out, "run"));
  EXPECT_EQ(report["ids"], Json({262, 262, 262}));
}

TEST(Cli, RunRefusesInOneSentence) {
  TemporaryFolder folder;
  WriteAll(folder / "bad.ids", "1 2 4096");
  WriteAll(folder / "word.ids", "1 two");
  WriteAll(folder / "latin1", "caf\xE9");
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "7 ";
  WriteAll(folder / "long.ids", many);
  const std::string run = "run " + Shell(DemoModel()) + " ";
  struct Case {
    std::string arguments;
    const char* message;
  };
  for (const Case& bad : std::vector<Case>{
           {run + "-p ''", "empty"},
           {run, "standard input is empty"},
           {run + "-f " + Shell(folder / "latin1"), "UTF-8"},
           {run + "--ids " + Shell(folder / "bad.ids"), "4096"},
           {run + "--ids " + Shell(folder / "word.ids"), "word 2"},
           {run + "--ids " + Shell(folder / "long.ids"), "context"},
           {run + "-p x -c 4096", "context"},
           {run + "-p x --logit-bias 5000:1", "5000"},
           {run + "-p x --stop ''", "stop"},
           {"run " + Shell(folder.path()) + " -p x", "not a model folder"},
           {"perplexity " + Shell(DemoModel()) + " " + Shell(folder / "none"), "does not exist"},
           {"verify " + Shell(folder / "none"), "not a folder"},
       }) {
    const Outcome outcome = Picchio(bad.arguments);
    EXPECT_EQ(outcome.exit_code, 1) << bad.arguments;
    EXPECT_THAT(outcome.err, testing::HasSubstr(bad.message)) << bad.arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  const Outcome environment = Picchio(run + "-p x", "ECAP=many");
  EXPECT_EQ(environment.exit_code, 1);
  EXPECT_THAT(environment.err, testing::HasSubstr("ECAP"));
}

// Values that no flag can have are wrong usage, found before the model is opened.
TEST(Cli, NumbersAreRefusedByTheirFlag) {
  const std::string run = "run " + Shell(DemoModel()) + " -p x ";
  for (const char* flag : {"-n -5",
                           "-n 1.5",
                           "-n 99999999999999999999",
                           "--top-k -1",
                           "--top-k 2.5",
                           "--top-p 2",
                           "--top-p nan",
                           "--min-p -0.1",
                           "--min-p 1e999",
                           "--temp nan",
                           "--temp -1",
                           "--temp inf",
                           "--temp 1e999",
                           "--temp warm",
                           "--repeat-penalty 0",
                           "--repeat-penalty nan",
                           "--seed -2",
                           "--seed 18446744073709551616",
                           "--seed 1.5",
                           "--seed soon",
                           "--seed ''",
                           "--ecap 0",
                           "--ecap -1",
                           "--cache-gb -1",
                           "--cache-gb 0",
                           "--cache-gb nan",
                           "--cache-gb 1e999",
                           "--cache-gb none",
                           "--ctx 0",
                           "--ctx -1",
                           "--ctx 1e9",
                           "--threads 0",
                           "--threads -2",
                           "--prefill-span 0",
                           "--logit-bias 5",
                           "--logit-bias 5:nan",
                           "--logit-bias 5:1e999",
                           "--logit-bias -1:1",
                           "--logits-out ''",
                           "--ids-out ''",
                           "-f ''",
                           "--ids ''"}) {
    const std::string prompted =
        std::string_view(flag).starts_with("-f") || std::string_view(flag).starts_with("--ids ''")
            ? "run " + Shell(DemoModel()) + " "
            : run;
    const Outcome outcome = Picchio(prompted + flag);
    EXPECT_EQ(outcome.exit_code, 2) << flag;
    EXPECT_EQ(outcome.out, "") << flag;
    const std::string name(flag, std::string_view(flag).find(' '));
    const std::string first_line = outcome.err.substr(0, outcome.err.find('\n'));
    EXPECT_THAT(first_line, testing::HasSubstr(name == "-n"   ? "--predict"
                                               : name == "-f" ? "--prompt-file"
                                                              : name))
        << flag;
  }
  for (const char* other : {"verify --threads 0", "verify --threads 1e3", "inspect --memory nan",
                            "inspect --memory 4 1e999", "inspect --memory -1"}) {
    EXPECT_EQ(Picchio(std::string(other) + " -- " + Shell(DemoModel())).exit_code, 2) << other;
  }
}

TEST(Cli, SeedOfMinusOneIsChosenAndTold) {
  const std::string run = "run " + Shell(DemoModel()) + " -p 'Once upon' -n 24 --temp 1.5 --json ";
  const Outcome first = Picchio(run + "--seed -1");
  const Outcome second = Picchio(run + "--seed -1");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  ASSERT_OK_AND_ASSIGN(const Json report, ParseJson(first.out, "run"));
  ASSERT_OK_AND_ASSIGN(const Json other, ParseJson(second.out, "run"));
  EXPECT_NE(report["seed"], other["seed"]);
  const auto seed = report["seed"].get<uint64_t>();
  EXPECT_THAT(first.err, testing::HasSubstr(fmt::format("seed {}\n", seed)));
  const Outcome again = Picchio(run + fmt::format("--seed {}", seed));
  ASSERT_OK_AND_ASSIGN(const Json repeated, ParseJson(again.out, "run"));
  EXPECT_EQ(repeated["ids"], report["ids"]);
  EXPECT_EQ(again.err.find("seed"), std::string::npos);
}

TEST(Cli, TwoOutputsAreTwoFiles) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "sub");
  WriteAll(folder / "there", "old");
  std::filesystem::create_symlink(folder / "there", folder / "link");
  std::filesystem::create_symlink(folder / "nowhere", folder / "dangling");
  const std::string run = "cd " + Shell(folder.path()) + " && ";
  for (const auto& [logits, ids] :
       {std::pair("new", "new"), std::pair("./sub/../new", "new"), std::pair("there", "link"),
        std::pair("nowhere", "dangling"), std::pair("sub//new", "sub/new")}) {
    const Outcome outcome = Picchio(
        "run " + Shell(DemoModel()) + " -p x -n 1 --logits-out " + logits + " --ids-out " + ids,
        run);
    EXPECT_EQ(outcome.exit_code, 1) << logits << " " << ids;
    EXPECT_THAT(outcome.err, testing::HasSubstr("are the same file")) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(ReadAll(folder / "there"), "old");
}

// SIGINT ends a run between two layers: what was written so far is whole, and the exit is clean.
TEST(Cli, CtrlCStopsCleanly) {
  TemporaryFolder folder;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    close(pipe_ends[0]);
    const std::string program = BuildFile("picchio").string();
    const std::string model = DemoModel().string();
    const std::string ids = (folder / "ids").string();
    execl(program.c_str(), "picchio", "run", model.c_str(), "-p", "Once upon a time",
          "--ignore-eos", "--ids-out", ids.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(pipe_ends[1]);
  std::string out(1, '\0');
  ASSERT_EQ(read(pipe_ends[0], out.data(), 1), 1);  // It is generating.
  ASSERT_EQ(kill(child, SIGINT), 0);
  char buffer[4096];
  for (ssize_t got; (got = read(pipe_ends[0], buffer, sizeof(buffer))) > 0;) {
    out.append(buffer, static_cast<size_t>(got));
  }
  close(pipe_ends[0]);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_TRUE(out.ends_with("\n"));
  // Ids of an unfinished text would look like those of a finished one.
  EXPECT_FALSE(FileExists(folder / "ids"));
}

// `picchio run` in a process of its own, sent SIGINT once its logits file is open under its
// temporary name: from then on the signal ends the text alone. Returns the status that the process
// ended with.
int InterruptRunUnderJson(const Path& logits_folder, const Path& report_file) {
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen(report_file.c_str(), "w", stdout) == nullptr) _exit(127);
    const std::string program = BuildFile("picchio").string();
    const std::string model = DemoModel().string();
    const std::string logits = (logits_folder / "logits.npy").string();
    execl(program.c_str(), "picchio", "run", model.c_str(), "-p", "Once upon a time", "--compute",
          "f32", "-t", "1", "--ignore-eos", "--json", "--logits-out", logits.c_str(),
          static_cast<char*>(nullptr));
    _exit(127);
  }
  for (int i = 0; i < 60000 && std::filesystem::is_empty(logits_folder); ++i) usleep(1000);
  int status = -1;
  if (child > 0 && (kill(child, SIGINT) != 0 || waitpid(child, &status, 0) != child)) return -1;
  return status;
}

// The report then says so, and so does the exit code: files that were asked for are not there.
TEST(Cli, CtrlCUnderJsonStopsCleanlyToo) {
  // On a busy machine the text may have ended before the signal came: then another one.
  for (int attempt = 0; attempt < 10; ++attempt) {
    TemporaryFolder folder;
    std::filesystem::create_directory(folder / "made");
    const int status = InterruptRunUnderJson(folder / "made", folder / "report");
    ASSERT_TRUE(WIFEXITED(status)) << status;
    ASSERT_OK_AND_ASSIGN(const Json report, ParseJson(ReadAll(folder / "report"), "run"));
    if (WEXITSTATUS(status) == 0 && report["finish_reason"] == "context") continue;
    EXPECT_EQ(WEXITSTATUS(status), 1);
    EXPECT_EQ(report["finish_reason"], "cancelled");
    EXPECT_TRUE(std::filesystem::is_empty(folder / "made"));
    return;
  }
  FAIL() << "no run was still going when the signal came";
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
      const std::string message = ReadAll(folder / "err");
      EXPECT_THAT(message, testing::HasSubstr("cannot write to standard output")) << command;
      EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1) << message;
    }
    EXPECT_EQ(WEXITSTATUS(std::system((line + "> /dev/null <&- 2>&-").c_str())), 0) << command;
  }
  EXPECT_EQ(Picchio("verify " + Shell(DemoModel())).exit_code, 0);
  EXPECT_EQ(Picchio("run " + Shell(DemoModel()) + " -p x -n 1 --ids-out /dev/null").exit_code, 1);
}

// Whoever reads the text goes away after its first byte. Were the run to go on to the end of the
// context, the ids would be written.
TEST(Cli, RunStopsWhenItsReaderHasGone) {
  TemporaryFolder folder;
  const std::string command = "(" + Shell(BuildFile("picchio")) + " run " + Shell(DemoModel()) +
                              " -p 'Once upon a time' --ignore-eos --ids-out " +
                              Shell(folder / "ids") + " 2> " + Shell(folder / "err") +
                              "; echo $? > " + Shell(folder / "code") + ") | head -c 1 > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(ReadAll(folder / "code"), "1\n");
  EXPECT_EQ(ReadAll(folder / "err"), "picchio run: cannot write to standard output: Broken pipe\n");
  EXPECT_FALSE(FileExists(folder / "ids"));
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

}  // namespace
}  // namespace picchio
