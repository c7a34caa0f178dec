#include <cstdio>
#include <memory>
#include <string>

#include "apps/commands/command.h"
#include "apps/commands/flag_checks.h"
#include "apps/commands/print_json.h"
#include "apps/diff/diff.h"
#include "apps/interrupt.h"
#include "base/human.h"
#include "base/json.h"
#include "base/thread_pool.h"

namespace picchio {
namespace {

struct DiffFlags {
  std::string store;
  std::string model;
  int threads = 0;
  bool json = false;
};

Status Run(const DiffFlags& flags) {
  const int threads = flags.threads > 0 ? flags.threads : UsableCpus();
  const Result<DiffReport> report = DiffStore(flags.store, flags.model, threads, InterruptFlag());
  if (!report) {
    if (flags.json) PrintJson({{"same", false}, {"difference", report.error().message()}});
    return report.error();
  }
  if (flags.json) {
    PrintJson({{"same", true},
               {"records", report->num_records},
               {"records_of_model", report->num_all_records},
               {"bytes", report->bytes},
               {"by_hash", report->by_hash},
               {"seconds", report->seconds}});
    return Status::Ok();
  }
  std::printf("the same: %llu of the model's %llu experts, %s in %s%s\n",
              static_cast<unsigned long long>(report->num_records),
              static_cast<unsigned long long>(report->num_all_records),
              FormatBytes(report->bytes).c_str(), FormatDuration(report->seconds).c_str(),
              report->by_hash ? " (by the manifest's hashes: the model has its experts in a store "
                                "alone)"
                              : "");
  return Status::Ok();
}

}  // namespace

void AddDiffCommand(Command& commands) {
  auto flags = std::make_shared<DiffFlags>();
  Command command = commands.Sub("diff", "Compare a store with the model that it was packed from");
  command.Option("STORE", flags->store, "The store").Required().Check(NotEmpty());
  command.Option("MODEL", flags->model, "Folder of the model").Required().Check(NotEmpty());
  command.Option("-t,--threads", flags->threads, "Threads (default: all CPUs)")
      .Check(WholeNumberFrom(1, 256));
  command.Switch("--json", flags->json, "Report as JSON");
  command.Footer(
      "Compares every byte of the store's records with the model's safetensors files. Exit code 1\n"
      "and the first difference where there is one.\n\n"
      "Example:\n"
      "  picchio diff /fast/qwen3.picchioflat ~/models/qwen3-30b");
  command.Run([flags] { return Run(*flags); });
}

}  // namespace picchio
