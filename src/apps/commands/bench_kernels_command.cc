#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "apps/bench/kernel_bench_report.h"
#include "apps/bench/kernel_benchmark.h"
#include "apps/commands/bench_commands.h"
#include "apps/commands/flag_checks.h"
#include "apps/commands/print_json.h"
#include "apps/interrupt.h"
#include "apps/progress.h"
#include "base/printable.h"
#include "base/units.h"

namespace picchio {
namespace {

struct BenchKernelsFlags {
  std::string sets;
  std::string weights;
  std::string threads;
  std::string rows = "1,8,64";
  int rounds = 5;
  double milliseconds = 20;
  int memory_mib = 512;
  bool json = false;
};

// A word that is one of the names of `values`.
template <typename Values, typename Name>
FlagCheck NameOneOf(const Values& values, Name name) {
  return [&values, name](const std::string& word) -> std::string {
    if (std::ranges::find(values, word, name) != std::end(values)) return {};
    std::string names;
    for (const auto value : values) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", name(value));
    }
    return fmt::format("{} is none of {}", Quoted(word), names);
  };
}

Status Run(const BenchKernelsFlags& flags) {
  KernelBenchOptions options{.rounds = flags.rounds,
                             .seconds = flags.milliseconds / 1000,
                             .buffer_bytes = static_cast<uint64_t>(flags.memory_mib) * 1_MiB};
  for (const std::string& word : WordsOf(flags.sets)) {
    options.sets.push_back(*std::ranges::find(kInstructionSets, word, InstructionSetName));
  }
  for (const std::string& word : WordsOf(flags.weights)) {
    options.formats.push_back(*std::ranges::find(kWeightFormats, word, WeightFormatName));
  }
  for (const std::string& word : WordsOf(flags.threads)) {
    options.threads.push_back(std::stoi(word));
  }
  options.x_rows.clear();
  for (const std::string& word : WordsOf(flags.rows)) options.x_rows.push_back(std::stoul(word));

  std::optional<Progress> progress;
  const auto on_progress = [&progress](size_t done, size_t total) {
    if (!progress) progress.emplace("measuring", total, "measurements");
    progress->SetDone(done);
  };
  PICCHIO_ASSIGN_OR_RETURN(const KernelBenchReport report,
                           RunKernelBench(options, InterruptFlag(), on_progress));
  progress.reset();
  if (flags.json) {
    PrintJson(KernelBenchJson(report));
  } else {
    std::fputs(KernelBenchText(report).c_str(), stdout);
  }
  return Status::Ok();
}

}  // namespace

void AddBenchKernelsCommand(Command& bench) {
  auto flags = std::make_shared<BenchKernelsFlags>();
  Command command = bench.Sub(
      "kernels", "How near the matrix products come to what memory and processor can do at most");
  command.Option("--sets", flags->sets, "Only these instruction sets, with commas between")
      .Check(EachOf(NameOneOf(kInstructionSets, InstructionSetName)));
  command
      .Option("--weights", flags->weights,
              "Only these of int4, mxfp4, int8, int8-f32 (floats as activations), bf16 and f32")
      .Check(EachOf(NameOneOf(kWeightFormats, WeightFormatName)));
  command
      .Option("-t,--threads", flags->threads,
              "Numbers of threads, with commas between (default: 1 and all CPUs)")
      .Check(EachOf(WholeNumberFrom(1, 1024)));
  command.Option("--rows", flags->rows, "Rows of activations: 1 is decoding, more are prefill")
      .Check(EachOf(WholeNumberFrom(1, 1024)))
      .ShowDefault();
  command.Option("--rounds", flags->rounds, "How often all is measured, in turn")
      .Check(WholeNumberFrom(1, 1000))
      .ShowDefault();
  command.Option("--ms", flags->milliseconds, "Milliseconds that one measurement takes")
      .Check(NumberFrom(0.01, 60000))
      .ShowDefault();
  command
      .Option("--memory-mib", flags->memory_mib,
              "Memory that weights are read from, many times the last cache")
      .Check(WholeNumberFrom(32, 1 << 20))
      .ShowDefault();
  command.Switch("--json", flags->json, "Report as JSON");
  command.Footer(
      "Shapes are those of Qwen3-30B-A3B and gpt-oss-20b. Directly before each product, memory is\n"
      "only read and registers are only multiplied: 'share' is the part of the nearer one of "
      "these\n"
      "two walls that the product reaches. All figures are medians over the rounds. Other work on\n"
      "the machine shows in all of them: let it rest.\n\n"
      "Examples:\n"
      "  picchio bench kernels\n"
      "  picchio bench kernels --weights int4,mxfp4 --rows 1 --rounds 15\n"
      "  picchio bench kernels --sets avx2 --threads 1,2,4,8 --json > kernels.json");
  command.Run([flags] { return Run(*flags); });
}

}  // namespace picchio
