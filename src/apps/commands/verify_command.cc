#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "apps/commands/command.h"
#include "apps/commands/flag_checks.h"
#include "apps/commands/print_json.h"
#include "apps/interrupt.h"
#include "apps/verify/verify.h"
#include "base/human.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/thread_pool.h"

namespace picchio {
namespace {

struct VerifyFlags {
  std::string model;
  int threads = 0;
  bool json = false;
};

Status Run(const VerifyFlags& flags) {
  const int threads = flags.threads > 0 ? flags.threads : UsableCpus();
  const Result<VerifyReport> result = VerifyModel(flags.model, threads, InterruptFlag());
  if (!result) {
    if (flags.json) PrintJson({{"whole", false}, {"fault", result.error().message()}});
    return result.error();
  }
  const VerifyReport& report = *result;
  if (!report.unlisted.empty()) {
    std::string names;
    for (const std::string& name : report.unlisted) {
      names += (names.empty() ? "" : ", ") + Quoted(name);
    }
    std::fprintf(stderr,
                 "warning: files that the manifest does not list, and that take no part in the "
                 "model: %s\n",
                 names.c_str());
  }
  const double rate =
      report.seconds > 0 ? static_cast<double>(report.bytes) / 1e9 / report.seconds : 0;
  if (flags.json) {
    const Json json{{"whole", true},
                    {"model_id", report.model_id},
                    {"tensors", report.num_tensors},
                    {"files", report.num_files},
                    {"bytes", report.bytes},
                    {"seconds", report.seconds},
                    {"unlisted", report.unlisted},
                    {"gb_per_s", rate}};
    PrintJson(json);
    return Status::Ok();
  }
  std::printf("whole: %llu tensors in %llu files, %s in %s (%.2f GB/s), model %s\n",
              static_cast<unsigned long long>(report.num_tensors),
              static_cast<unsigned long long>(report.num_files), FormatBytes(report.bytes).c_str(),
              FormatDuration(report.seconds).c_str(), rate, report.model_id.c_str());
  return Status::Ok();
}

}  // namespace

void AddVerifyCommand(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* command = app.add_subcommand("verify", "Prove that a model is whole, to the last bit");
  command->add_option("MODEL", flags->model, "Folder of the model")->required();
  command->add_option("-t,--threads", flags->threads, "Threads (default: all CPUs)")
      ->check(WholeNumberFrom(1, 256));
  command->add_flag("--json", flags->json, "Report as JSON");
  command->footer(
      "Reads every byte and compares it with the manifest. Exit code 1 and the first fault where\n"
      "something differs. Files that the manifest does not list are named, and no fault.\n\n"
      "Example:\n"
      "  picchio verify ~/models/qwen3-30b");
  command->callback([flags, &invocation] { invocation.run = [flags] { return Run(*flags); }; });
}

}  // namespace picchio
