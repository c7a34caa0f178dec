#include "apps/bench/run_benchmark.h"

#include <algorithm>
#include <utility>

#include "apps/bench/run_child.h"
#include "apps/bench/run_cold_start.h"
#include "apps/doctor/machine_facts.h"
#include "apps/progress.h"

namespace picchio {
namespace {

constexpr double kConfidence = 0.95;

// The whole command line of a run, for messages and reports.
std::string TextOf(const RunFlagSet& given, const RunFlagSet& whole) {
  std::string text = given.text;
  for (size_t i = given.arguments.size(); i < whole.arguments.size(); ++i) {
    const std::string& word = whole.arguments[i];
    const bool quote = word.find(' ') != std::string::npos;
    text += fmt::format("{}{}", text.empty() ? "" : " ", quote ? "'" + word + "'" : word);
  }
  return text;
}

Status CheckSameIds(const std::vector<int32_t>& first, const std::vector<int32_t>& ids, char set,
                    int pair) {
  if (first == ids) return Status::Ok();
  const size_t at = static_cast<size_t>(std::ranges::mismatch(first, ids).in1 - first.begin());
  const auto id_at = [&](const std::vector<int32_t>& list) {
    return at < list.size() ? fmt::format("{}", list[at]) : "none";
  };
  return Error(Code::kCorrupt,
               "pair {}: the tokens of {} differ from those of the first run of A at position {}: "
               "{}, and there {}; if no flag means them to (a seed, a temperature, the prompt, "
               "--compute), one of the two computes wrongly",
               pair, set, at, id_at(ids), id_at(first));
}

void DescribeMachine(RunBenchReport& report) {
  report.cpu = CpuModel();
  report.kernel = KernelRelease();
#ifdef NDEBUG
  report.build = "release";
#else
  report.build = "debug";
  report.notes.emplace_back("this is no release build: CPU figures are too high");
#endif
}

}  // namespace

RunFlagSet WithUsualFlags(const RunFlagSet& flags) {
  RunFlagSet whole = flags;
  const auto add = [&](std::initializer_list<const char*> words) {
    whole.arguments.insert(whole.arguments.end(), words.begin(), words.end());
  };
  if (!flags.Has({"-p", "--prompt", "-f", "--prompt-file", "--ids"})) {
    add({"-p", "Once upon a time"});
  }
  if (!flags.Has({"-n", "--predict"})) add({"-n", "64", "--ignore-eos"});
  if (!flags.Has({"--warm-start"})) add({"--warm-start", "off"});
  return whole;
}

Result<RunBenchReport> RunRunBench(const RunBenchOptions& options, const std::atomic<bool>& stop) {
  const RunFlagSet a = WithUsualFlags(options.a);
  const RunFlagSet b = WithUsualFlags(options.b);
  RunBenchReport report{.model = PathText(options.model),
                        .a_flags = TextOf(options.a, a),
                        .b_flags = TextOf(options.b, b)};
  DescribeMachine(report);
  const std::vector<Path> files = FilesToForget(options.model, {StoreOf(a), StoreOf(b)});
  const auto run = [&](const RunFlagSet& flags) -> Result<RunSample> {
    if (options.cold) {
      PICCHIO_ASSIGN_OR_RETURN(report.cold, ForgetFiles(files, options.drop_control));
    }
    ChildCommand command{.program = options.program,
                         .arguments = {"run", options.model.string(), "--json"},
                         .environment = flags.environment};
    command.arguments.insert(command.arguments.end(), flags.arguments.begin(),
                             flags.arguments.end());
    PICCHIO_ASSIGN_OR_RETURN(const std::string text, RunChild(command, stop));
    return ParseRunSample(text);
  };
  Progress progress("measuring", 2 * static_cast<uint64_t>(options.pairs), "runs");
  for (int pair = 1; pair <= options.pairs; ++pair) {
    for (const bool second : {false, true}) {
      // Every other pair the other way round: what drifts then falls on both alike.
      const bool is_b = (pair % 2 == 0) != second;
      Result<RunSample> sample = run(is_b ? b : a);
      if (!sample) {
        return sample.error().code() == Code::kCancelled
                   ? sample.error()
                   : sample.error().WithContext(fmt::format("pair {}, {}", pair, is_b ? "B" : "A"));
      }
      (is_b ? report.b : report.a).push_back(*std::move(sample));
      PICCHIO_RETURN_IF_ERROR(CheckSameIds(
          report.a.front().ids, (is_b ? report.b : report.a).back().ids, is_b ? 'B' : 'A', pair));
      progress.Add(1);
    }
  }
  if (options.pairs < 6) {
    report.notes.emplace_back("fewer than 6 pairs give no 95 % interval");
  }
  return report;
}

std::vector<RunComparison> Compare(const RunBenchReport& report) {
  std::vector<RunComparison> all;
  for (size_t i = 0; i < RunMeasures().size(); ++i) {
    std::vector<double> of_a;
    std::vector<double> of_b;
    std::vector<double> ratios;
    for (size_t pair = 0; pair < report.a.size(); ++pair) {
      const std::optional<double> a = report.a[pair].values[i];
      const std::optional<double> b = report.b[pair].values[i];
      if (!a || !b) break;
      of_a.push_back(*a);
      of_b.push_back(*b);
      if (*a > 0) ratios.push_back(*b / *a);
    }
    if (of_a.size() < report.a.size() || of_a.empty()) continue;
    RunComparison comparison{.measure = &RunMeasures()[i],
                             .a = SpreadOf(std::move(of_a)).median,
                             .b = SpreadOf(std::move(of_b)).median};
    if (ratios.size() == report.a.size()) {
      comparison.ratio = SpreadOf(ratios).median;
      comparison.interval = MedianInterval(std::move(ratios), kConfidence);
    }
    all.push_back(comparison);
  }
  return all;
}

}  // namespace picchio
