#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/io_bench_report.h"
#include "apps/bench/io_benchmark.h"
#include "apps/bench/io_check.h"
#include "apps/commands/bench_commands.h"
#include "apps/commands/flag_checks.h"
#include "apps/commands/print_json.h"
#include "apps/interrupt.h"
#include "base/atomic_file.h"
#include "base/human.h"
#include "base/printable.h"

namespace picchio {
namespace {

struct BenchIoFlags {
  std::string store;
  std::string ways;
  std::string depths = "1,2,4,8,16,32,64";
  int rounds = 3;
  double seconds = 1;
  bool unregistered = false;
  bool check = false;
  std::string model;
  bool json = false;
  std::string html;
};

FlagCheck NameOfAWay() {
  return [](const std::string& word) -> std::string {
    if (std::ranges::find(kIoWays, word, IoWayName) != std::end(kIoWays)) return {};
    return fmt::format("{} is none of uring, direct, buffered and buffered-warm", Quoted(word));
  };
}

IoBenchOptions OptionsOf(const BenchIoFlags& flags) {
  IoBenchOptions options{.depths = {},
                         .rounds = flags.rounds,
                         .seconds = flags.seconds,
                         .register_memory = !flags.unregistered};
  if (!flags.ways.empty()) options.ways.clear();
  for (const std::string& word : WordsOf(flags.ways)) {
    options.ways.push_back(*std::ranges::find(kIoWays, word, IoWayName));
  }
  for (const std::string& word : WordsOf(flags.depths)) options.depths.push_back(std::stoi(word));
  return options;
}

// Those that worked.
Result<uint64_t> Check(const BenchIoFlags& flags, const IoBenchReport& report) {
  std::vector<IoWay> ways;
  for (const IoBenchSeries& series : report.series) {
    // Warm or not, it is the same way of reading.
    if (series.unavailable.empty() && series.way != IoWay::kBufferedWarm) {
      ways.push_back(series.way);
    }
  }
  if (ways.empty()) ways.push_back(IoWay::kBuffered);
  const Path store = flags.store;
  const Path beside = ParentOf(store);
  return CheckRecordsInEveryWay(store, flags.model.empty() ? beside : Path(flags.model), ways,
                                InterruptFlag());
}

Status Run(const BenchIoFlags& flags) {
  // Opened before the work: what cannot be written is better known now.
  std::optional<AtomicFile> page;
  if (!flags.html.empty()) {
    PICCHIO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(flags.html));
    page.emplace(std::move(file));
  }
  const auto announce = [](const IoBenchForecast& forecast) {
    std::fprintf(stderr, "reading %s%s in %d measurements, about %s\n",
                 FormatBytes(forecast.set_bytes).c_str(),
                 forecast.whole_store ? " (the whole store)" : " of the store",
                 forecast.num_measurements, FormatDuration(forecast.seconds).c_str());
  };
  PICCHIO_ASSIGN_OR_RETURN(IoBenchReport report,
                           RunIoBench(flags.store, OptionsOf(flags), InterruptFlag(), announce));
  if (flags.check) {
    PICCHIO_ASSIGN_OR_RETURN(report.num_checked, Check(flags, report));
  }
  if (page) {
    const std::string html = IoBenchHtml(report);
    PICCHIO_RETURN_IF_ERROR(page->file().WriteAt(0, std::as_bytes(std::span(html))));
    PICCHIO_RETURN_IF_ERROR(page->Commit());
  }
  if (flags.json) {
    PrintJson(IoBenchJson(report));
  } else {
    std::fputs(IoBenchText(report).c_str(), stdout);
  }
  return Status::Ok();
}

}  // namespace

void AddBenchIoCommand(Command& bench) {
  auto flags = std::make_shared<BenchIoFlags>();
  Command command =
      bench.Sub("io", "Read a store's experts in every way there is, at several depths");
  command.Option("STORE", flags->store, "The store").Required().Check(NotEmpty());
  command
      .Option(
          "--only", flags->ways,
          "Only these of the ways uring, direct, buffered and buffered-warm, with commas between")
      .Check(EachOf(NameOfAWay()));
  command.Option("--depths", flags->depths, "Reads in flight, with commas between")
      .Check(EachOf(WholeNumberFrom(1, 4096)))
      .ShowDefault();
  command.Option("--rounds", flags->rounds, "How often all is measured, in turn")
      .Check(WholeNumberFrom(1, 1000))
      .ShowDefault();
  command
      .Option("--seconds", flags->seconds,
              "The most that one measurement takes; less where all of the set has been read")
      .Check(NumberFrom(0.01, 3600))
      .ShowDefault();
  command.Switch("--unregistered", flags->unregistered,
                 "Do not register the memory with io_uring, to see what that is worth");
  command.Switch("--check", flags->check,
                 "Then compare every record, read in each way, with the model's bytes");
  command
      .Option("--model", flags->model,
              "With --check: the model's folder (default: the one that the store is in)")
      .Check(NotEmpty());
  command.Switch("--json", flags->json, "Report as JSON");
  command.Option("--html", flags->html, "Write a page with charts to this file").Check(NotEmpty());
  command.Footer(
      "Reads whole experts in random order from a set of at least 1 GB, or the whole store where\n"
      "that is smaller. The page cache is emptied of them before buffered reads are measured, and\n"
      "filled for buffered-warm. Rates are medians over the rounds. Other work on the machine "
      "shows\n"
      "in all figures: let it rest.\n\n"
      "Examples:\n"
      "  picchio bench io ~/models/qwen3-30b/experts.picchioflat\n"
      "  picchio bench io store.picchioflat --only uring --depths 8,16 --rounds 5 --html io.html\n"
      "  picchio bench io store.picchioflat --check --model ~/models/qwen3-30b --json");
  command.Run([flags] { return Run(*flags); });
}

}  // namespace picchio
