// `picchio run`: its flags, its outputs, its reports.
#include <algorithm>
#include <cmath>
#include <functional>
#include <regex>

#include "apps/cli_test_support.h"
#include "apps/run/store_models_test_support.h"
#include "base/json.h"
#include "format/npy.h"

namespace picchio {
namespace {

TEST(CliRun, RunWritesTextAndTheSameTextAgain) {
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

TEST(CliRun, AFlagOfTheStoreBeatsTheEnvironment) {
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

TEST(CliRun, RunReportsAsJson) {
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

TEST(CliRun, StopStringsAndBiasesAndStandardInput) {
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

TEST(CliRun, SeedOfMinusOneIsChosenAndTold) {
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

// The first number behind `pattern`, a regular expression, in a text; fails where it is not there.
double NumberIn(const std::string& text, const std::string& pattern) {
  std::smatch match;
  if (std::regex_search(text, match, std::regex(pattern))) return std::stod(match[1]);
  ADD_FAILURE() << pattern << " is not in:\n" << text;
  return -1;
}

TEST(CliRun, StatsSaysWhereTimeAndBytesWent) {
  const std::string prompt = " -p 'Once upon a time there was'";
  const std::string run =
      "run " + Shell(DemoModel()) + prompt + " -n 5 --temp 0 --ecap 4 -t 2 --warm-start off";
  const Outcome ids = Picchio("tokenize --ids " + Shell(DemoModel()) + prompt);
  const auto prompt_tokens = std::count(ids.out.begin(), ids.out.end(), '\n');
  ASSERT_GT(prompt_tokens, 1);

  const Outcome outcome = Picchio(run + " --stats");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, Picchio(run).out);
  const std::string& table = outcome.err;
  EXPECT_EQ(NumberIn(table, "prompt  ([0-9]+) tokens in [0-9]"), prompt_tokens);
  EXPECT_EQ(NumberIn(table, "decode  ([0-9]+) tokens in [0-9]"), 4);
  EXPECT_GT(NumberIn(table, "([0-9.]+) tok/s"), 0);
  for (const char* part : {"attention", "MoE", "storage wait", "head"}) {
    const double share = NumberIn(table, std::string(part) + " [^(]*\\(([0-9]+) %\\)");
    EXPECT_LE(share, 100) << part;
  }
  // What the report in JSON counts, this one does; neither depends on the clock.
  ASSERT_OK_AND_ASSIGN(const Json report, ParseJson(Picchio(run + " --json").out, "run"));
  const Json& counted = report["stats"];
  const uint64_t hits = counted["prompt"]["hits"];
  const uint64_t misses = counted["prompt"]["misses"];
  EXPECT_EQ(NumberIn(table, " % of ([0-9]+) experts were cached"), hits + misses);
  EXPECT_EQ(NumberIn(table, "cached; ([0-9]+) reads"), counted["prompt"]["reads"]);
  EXPECT_EQ(NumberIn(table, "decode.*\n.*\n.*cached; ([0-9]+) reads"), counted["decode"]["reads"]);
  EXPECT_GE(NumberIn(table, "([0-9.]+) GB/s"), 0);
  const uint64_t reads =
      counted["prompt"]["reads"].get<uint64_t>() + counted["decode"]["reads"].get<uint64_t>();
  EXPECT_EQ(NumberIn(table, "storage ([0-9]+) records from"), reads);
  EXPECT_EQ(NumberIn(table, "KV cache of ([0-9]+) positions"), counted["memory"]["context"]);
  EXPECT_EQ(NumberIn(table, "working memory of spans of ([0-9]+) positions"), prompt_tokens);
  EXPECT_GT(NumberIn(table, "peak resident ([0-9.]+) "), 0);
  EXPECT_EQ(NumberIn(table, "; ([0-9]+) threads"), 2);
  EXPECT_EQ(Picchio(run + " --stats --json").err, "");
}

// Draws at a high temperature, and hands each drawn id to `check` with its rank among the logits
// (0: the largest) and how likely it is relative to the likeliest.
void ForEachDraw(const std::string& flags, const std::function<void(size_t, double)>& check) {
  constexpr double kTemperature = 3;
  TemporaryFolder folder;
  const Outcome run =
      Picchio("run " + Shell(DemoModel()) + " -p 'Once upon a time' -n 40 --ignore-eos --seed 5" +
              fmt::format(" --temp {} --repeat-penalty 1 --top-p 1 ", kTemperature) + flags +
              " --json --logits-out " + Shell(folder / "logits.npy"));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  ASSERT_OK_AND_ASSIGN(const Json report, ParseJson(run.out, "run"));
  ASSERT_OK_AND_ASSIGN(const NpyArray logits, NpyArray::Load(folder / "logits.npy"));
  ASSERT_OK_AND_ASSIGN(const auto values, logits.Values<float>());
  const size_t vocab = logits.shape()[1];
  const size_t first_row = report["prompt_tokens"].get<size_t>() - 1;
  ASSERT_EQ(report["ids"].size(), 40u);
  for (size_t i = 0; i < report["ids"].size(); ++i) {
    const auto row = values.subspan((first_row + i) * vocab, vocab);
    const double drawn = row[report["ids"][i].get<size_t>()];
    const auto rank = std::ranges::count_if(row, [&](float logit) { return logit > drawn; });
    const double largest = std::ranges::max(row);
    check(static_cast<size_t>(rank), std::exp((drawn - largest) / kTemperature));
  }
}

TEST(CliRun, TopKAndMinPKeepOnlyTheLikeliest) {
  size_t beyond_5 = 0;
  size_t below_half = 0;
  ForEachDraw("--top-k 0 --min-p 0", [&](size_t rank, double likely) {
    beyond_5 += rank >= 5;
    below_half += likely < 0.5;
  });
  // So hot that both have something to keep out.
  EXPECT_GT(beyond_5, 10u);
  EXPECT_GT(below_half, 10u);
  std::vector<bool> ranks(5);
  ForEachDraw("--top-k 5 --min-p 0", [&](size_t rank, double) {
    ASSERT_LT(rank, 5u);
    ranks[rank] = true;
  });
  EXPECT_GT(std::ranges::count(ranks, true), 2) << "hardly anything was drawn but the likeliest";
  size_t not_first = 0;
  ForEachDraw("--top-k 0 --min-p 0.5", [&](size_t rank, double likely) {
    EXPECT_GE(likely, 0.4999);
    not_first += rank > 0;
  });
  EXPECT_GT(not_first, 5u);

  const std::string run = "run " + Shell(DemoModel()) + " -p 'Once upon a time' -n 20 ";
  const Outcome greedy = Picchio(run + "--temp 0");
  EXPECT_EQ(Picchio(run + "--temp 5 --top-k 1").out, greedy.out);
  EXPECT_EQ(Picchio(run + "--temp 5 --min-p 1").out, greedy.out);
}

}  // namespace
}  // namespace picchio
