// What the commands refuse: one sentence, and nothing done.
#include <algorithm>

#include "apps/cli_test_support.h"

namespace picchio {
namespace {

TEST(CliRefusals, RunRefusesInOneSentence) {
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
TEST(CliRefusals, NumbersAreRefusedByTheirFlag) {
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

// What was given as "" was most likely an unset variable: it is never the default.
TEST(CliRefusals, AnEmptyNameIsNoName) {
  for (const char* arguments :
       {"convert '' x",         "convert x ''",     "pack ''",
        "pack x -o ''",         "verify ''",        "verify x --model ''",
        "inspect ''",           "diff '' x",        "diff x ''",
        "tokenize ''",          "run ''",           "run --model ''",
        "run x --flat ''",      "run x --trace ''", "perplexity '' x",
        "perplexity x ''",      "bench io ''",      "bench io x --model ''",
        "bench io x --html ''", "bench cache ''",   "synth '' --shape qwen3-30b-a3b"}) {
    const Outcome outcome = Picchio(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_THAT(outcome.err, testing::HasSubstr("is empty")) << arguments;
  }
}

// A store may lie on a device: whatever is no folder is looked at as a store.
TEST(CliRefusals, WhatIsNoFolderIsNotCalledOne) {
  for (const char* command : {"inspect", "verify"}) {
    const Outcome outcome = Picchio(std::string(command) + " /dev/null");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, testing::HasSubstr("/dev/null"));
    EXPECT_THAT(outcome.err, testing::Not(testing::HasSubstr("not a folder")));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(CliRefusals, TwoOutputsAreTwoFiles) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "sub");
  WriteAll(folder / "there", "old");
  std::filesystem::create_symlink(folder / "there", folder / "link");
  std::filesystem::create_symlink(folder / "nowhere", folder / "dangling");
  const std::string run = "cd " + Shell(folder.path()) + " && ";
  for (const auto& [logits, ids] :
       {std::pair("new", "new"), std::pair("./sub/../new", "new"), std::pair("there", "link"),
        std::pair("nowhere", "dangling"), std::pair("sub//new", "sub/new")}) {
    for (const auto& [flag, other] :
         {std::pair("--logits-out", "--ids-out"), std::pair("--logits-out", "--trace"),
          std::pair("--trace", "--ids-out")}) {
      const Outcome outcome = Picchio("run " + Shell(DemoModel()) + " -p x -n 1 " + flag + " " +
                                          logits + " " + other + " " + ids,
                                      run);
      EXPECT_EQ(outcome.exit_code, 1) << flag << " " << logits << " " << other << " " << ids;
      EXPECT_THAT(outcome.err, testing::HasSubstr("are the same file")) << outcome.err;
      EXPECT_EQ(outcome.out, "");
    }
  }
  EXPECT_EQ(ReadAll(folder / "there"), "old");
}

}  // namespace
}  // namespace picchio
