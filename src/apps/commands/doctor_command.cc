#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "apps/commands/command.h"
#include "apps/commands/print_json.h"
#include "apps/doctor/doctor.h"

namespace picchio {
namespace {

struct DoctorFlags {
  std::string path = ".";
  double seconds = 2;
  bool json = false;
};

Status Run(const DoctorFlags& flags) {
  PICCHIO_ASSIGN_OR_RETURN(const DoctorReport report,
                           Examine(flags.path, {.seconds = flags.seconds}));
  if (flags.json) {
    PrintJson(DoctorJson(report));
  } else {
    std::fputs(DoctorText(report).c_str(), stdout);
  }
  const auto broken = std::ranges::count(report.findings, Health::kWillNotWork, &Finding::health);
  if (broken == 0) return Status::Ok();
  return Error(Code::kUnavailable, "{} of the above will not work", broken);
}

}  // namespace

void AddDoctorCommand(Command& commands) {
  auto flags = std::make_shared<DoctorFlags>();
  Command command =
      commands.Sub("doctor", "Tell what makes reading slow on this machine, and how to mend it");
  command
      .Option("PATH", flags->path,
              "A model's folder, a store, or any folder, where a temporary file is measured")
      .Check(NotEmpty())
      .ShowDefault();
  command.Option("--seconds", flags->seconds, "How long the bandwidth is measured")
      .Check(NumberFrom(0.01, 3600))
      .ShowDefault();
  command.Switch("--json", flags->json, "Report as JSON");
  command.Footer(
      "Each line says ok, could be better (and below it what would mend it) or will not work "
      "(exit\n"
      "code 1). Nothing is changed and nothing kept.\n\n"
      "Examples:\n"
      "  picchio doctor ~/models/qwen3-30b\n"
      "  picchio doctor /mnt/fast --json");
  command.Run([flags] { return Run(*flags); });
}

}  // namespace picchio
