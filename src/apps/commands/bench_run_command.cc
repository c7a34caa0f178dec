#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/run_bench_report.h"
#include "apps/bench/run_benchmark.h"
#include "apps/bench/run_child.h"
#include "apps/bench/run_llama_form.h"
#include "apps/commands/bench_commands.h"
#include "apps/commands/engine_flags.h"
#include "apps/commands/flag_checks.h"
#include "apps/commands/print_json.h"
#include "apps/interrupt.h"
#include "base/atomic_file.h"

namespace picchio {
namespace {

struct BenchRunFlags {
  std::string model;
  std::string common;
  // A against B.
  std::string a;
  std::string b;
  int pairs = 6;
  bool drop_caches = false;
  bool json = false;
  std::string html;
  // As llama-bench.
  std::string threads;
  std::string prompts = "512";
  std::string texts = "128";
  int repetitions = 5;
  std::string output = "md";

  // Whether it is A against B, and what belongs to that alone.
  Flag a_flag;
  Flag b_flag;
  std::vector<Flag> of_pairs;
};

FlagCheck FlagsOfRun() {
  return [](const std::string& text) -> std::string {
    const auto flags = ParseRunFlags(text);
    return flags.has_value() ? std::string() : flags.error().message();
  };
}

Status RunPairs(const BenchRunFlags& flags) {
  // Opened before the work: what cannot be written is better known now.
  std::optional<AtomicFile> page;
  if (!flags.html.empty()) {
    PICCHIO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(flags.html));
    page.emplace(std::move(file));
  }
  PICCHIO_ASSIGN_OR_RETURN(const RunFlagSet common, ParseRunFlags(flags.common));
  PICCHIO_ASSIGN_OR_RETURN(const RunFlagSet a, ParseRunFlags(flags.a));
  PICCHIO_ASSIGN_OR_RETURN(const RunFlagSet b, ParseRunFlags(flags.b));
  PICCHIO_ASSIGN_OR_RETURN(const RunBenchReport report, RunRunBench({.program = ThisProgram(),
                                                                     .model = flags.model,
                                                                     .a = Joined(common, a),
                                                                     .b = Joined(common, b),
                                                                     .pairs = flags.pairs,
                                                                     .cold = flags.drop_caches},
                                                                    InterruptFlag()));
  if (page) {
    const std::string html = RunBenchHtml(report);
    PICCHIO_RETURN_IF_ERROR(page->file().WriteAt(0, std::as_bytes(std::span(html))));
    PICCHIO_RETURN_IF_ERROR(page->Commit());
  }
  if (flags.json) {
    PrintJson(RunBenchJson(report));
  } else {
    std::fputs(RunBenchText(report).c_str(), stdout);
  }
  return Status::Ok();
}

std::vector<uint32_t> NumbersOf(const std::string& list) {
  std::vector<uint32_t> numbers;
  for (const std::string& word : WordsOf(list)) {
    numbers.push_back(static_cast<uint32_t>(std::strtoul(word.c_str(), nullptr, 10)));
  }
  return numbers;
}

LlamaBenchFormat FormatOf(const std::string& word) {
  return word == "csv"     ? LlamaBenchFormat::kCsv
         : word == "json"  ? LlamaBenchFormat::kJson
         : word == "jsonl" ? LlamaBenchFormat::kJsonl
                           : LlamaBenchFormat::kMd;
}

// The engine's flags in a string, read as `picchio run` reads them.
Result<EngineOptions> EngineOptionsOf(const RunFlagSet& flags, const std::string& model) {
  for (const std::string& assignment : flags.environment) {
    const size_t end = assignment.find('=');
    setenv(assignment.substr(0, end).c_str(), assignment.c_str() + end + 1, 1);
  }
  CommandLine line("--flags", "Flags that say how a model is run", "");
  EngineFlags engine;
  engine.AddTo(line.commands());
  engine.warm_start = "off";
  std::optional<Result<EngineOptions>> options;
  line.commands().Run([&] {
    options.emplace(engine.Options());
    return Status::Ok();
  });
  std::vector<std::string> words = {"--flags"};
  words.insert(words.end(), flags.arguments.begin(), flags.arguments.end());
  words.emplace_back("--model");
  words.push_back(model);
  std::vector<char*> argv;
  argv.reserve(words.size());
  for (std::string& word : words) argv.push_back(word.data());
  const int code = line.Run(static_cast<int>(argv.size()), argv.data());
  if (code != 0 || !options) {
    return Error(Code::kInvalidArgument,
                 "--flags takes flags that say how a model is run, as --cache-gb 8");
  }
  return *std::move(options);
}

Status RunAsLlamaBench(const BenchRunFlags& flags) {
  if (std::ranges::any_of(flags.of_pairs, &Flag::given)) {
    return Error(Code::kInvalidArgument,
                 "--pairs, --drop-caches, --json and --html go with --a or --b; without them -o "
                 "chooses the report");
  }
  PICCHIO_ASSIGN_OR_RETURN(const RunFlagSet common, ParseRunFlags(flags.common));
  PICCHIO_ASSIGN_OR_RETURN(EngineOptions options, EngineOptionsOf(common, flags.model));
  const LlamaBenchOptions tests{.prompts = NumbersOf(flags.prompts),
                                .texts = NumbersOf(flags.texts),
                                .repetitions = flags.repetitions};
  std::vector<uint32_t> threads = NumbersOf(flags.threads);
  if (threads.empty()) threads.push_back(static_cast<uint32_t>(options.num_threads));
  std::vector<LlamaBenchRun> runs;
  for (const uint32_t count : threads) {
    options.num_threads = static_cast<int>(count);
    PICCHIO_ASSIGN_OR_RETURN(LlamaBenchRun run,
                             RunLlamaBench(flags.model, options, tests, InterruptFlag()));
    runs.push_back(std::move(run));
  }
  std::fputs(LlamaBenchText(runs, FormatOf(flags.output)).c_str(), stdout);
  return Status::Ok();
}

}  // namespace

void AddBenchRunCommand(Command& bench) {
  auto flags = std::make_shared<BenchRunFlags>();
  Command command =
      bench.Sub("run", "Compare two ways of running a model, or measure one as llama-bench does");
  command.Option("MODEL,-m,--model", flags->model, "Folder of the model")
      .Required()
      .Check(NotEmpty());
  command
      .Option("--flags", flags->common,
              "Flags for every run; NAME=VALUE before them goes to the environment")
      .Check(FlagsOfRun());
  flags->a_flag = command.Option("--a", flags->a, "Flags of picchio run for A").Check(FlagsOfRun());
  flags->b_flag = command.Option("--b", flags->b, "Flags of picchio run for B").Check(FlagsOfRun());
  flags->of_pairs = {
      command.Option("--pairs", flags->pairs, "Pairs of runs of A and B")
          .Check(WholeNumberFrom(1, 1000))
          .ShowDefault(),
      command.Switch("--drop-caches", flags->drop_caches,
                     "With --a or --b: empty the page cache before every run"),
      command.Switch("--json", flags->json, "With --a or --b: report as JSON"),
      command
          .Option("--html", flags->html, "With --a or --b: write a page with charts to this file")
          .Check(NotEmpty())};
  const std::vector<Flag> of_llama_bench = {
      command
          .Option("-t,--threads", flags->threads,
                  "Compute threads, with commas between (default: all CPUs)")
          .Check(EachOf(WholeNumberFrom(1, 1024))),
      command.Option("-p,--n-prompt", flags->prompts, "Tokens of prompts, with commas between")
          .Check(EachOf(WholeNumberFrom(0, 1 << 20)))
          .ShowDefault(),
      command.Option("-n,--n-gen", flags->texts, "Tokens of texts, with commas between")
          .Check(EachOf(WholeNumberFrom(0, 1 << 20)))
          .ShowDefault(),
      command.Option("-r,--repetitions", flags->repetitions, "How often each test is measured")
          .Check(WholeNumberFrom(1, 10000))
          .ShowDefault(),
      command.Option("-o,--output", flags->output, "How to report the tests")
          .OneOf({"csv", "json", "jsonl", "md"})
          .ShowDefault()};
  for (Flag one : of_llama_bench) {
    one.Excludes(flags->a_flag).Excludes(flags->b_flag);
  }
  command.Footer(
      "With --a or --b (one left out: no flags) picchio run is started with each set in turn, A B "
      "B A,\n"
      "and each measure is given as medians and as the ratio of the pairs with its 95 % interval. "
      "The\n"
      "token ids of all runs must be the same. Where the flags name no prompt, all runs get one, "
      "of\n"
      "64 tokens unless -n says otherwise, and start with an empty expert cache unless "
      "--warm-start\n"
      "does. The flags are read as a shell would, without a shell.\n"
      "Without --a and --b the model is measured with random tokens, as llama-bench does, and "
      "reported\n"
      "in its fields.\n\n"
      "Examples:\n"
      "  picchio bench run ~/models/qwen3-30b --a \"--io buffered\" --b \"--io uring\" "
      "--drop-caches\n"
      "  picchio bench run ~/models/qwen3-30b --flags \"-n 200 --cache-gb 4\" --b \"-t 4\" --pairs "
      "10\n"
      "  picchio bench run ~/models/qwen3-30b --flags \"-p 'Once upon'\" --a \"DIRECT=1\" "
      "--html ab.html\n"
      "  picchio bench run -m ~/models/qwen3-30b -t 4,8 -p 512 -n 128 -r 5 -o jsonl");
  command.Run([flags] {
    return flags->a_flag.given() || flags->b_flag.given() ? RunPairs(*flags)
                                                          : RunAsLlamaBench(*flags);
  });
}

}  // namespace picchio
