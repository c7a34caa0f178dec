#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/commands/command.h"
#include "apps/commands/flag_checks.h"
#include "apps/inspect/inspect.h"
#include "apps/inspect/inspect_store.h"

namespace picchio {
namespace {

struct InspectFlags {
  std::string model;
  std::vector<double> memory_gib = {4, 8, 16, 32, 64, 128};
  bool json = false;
};

Status Run(const InspectFlags& flags) {
  std::error_code ignored;
  // A store may lie on a device.
  if (SomethingExists(flags.model) && !std::filesystem::is_directory(flags.model, ignored)) {
    PICCHIO_ASSIGN_OR_RETURN(const FlatIndex index, InspectStore(flags.model));
    std::fputs((flags.json ? StoreJson(index) : StoreTable(index)).c_str(), stdout);
    return Status::Ok();
  }
  std::vector<uint64_t> memory_bytes;
  for (const double gib : flags.memory_gib) {
    memory_bytes.push_back(static_cast<uint64_t>(gib * 0x1p30));
  }
  PICCHIO_ASSIGN_OR_RETURN(const Inspection inspection, InspectModel(flags.model, memory_bytes));
  const std::string text = flags.json ? InspectionJson(inspection) : InspectionTable(inspection);
  std::fputs(text.c_str(), stdout);
  return Status::Ok();
}

}  // namespace

void AddInspectCommand(Command& commands) {
  auto flags = std::make_shared<InspectFlags>();
  Command command =
      commands.Sub("inspect", "Show what a model is, what a token costs, what memory holds");
  command.Option("MODEL", flags->model, "Folder of the model, or a store")
      .Required()
      .Check(NotEmpty());
  command.Option("--memory", flags->memory_gib, "Memory sizes to look at, in GiB")
      .Check(NumberFrom(0.001, 1e6));
  command.Switch("--json", flags->json, "Report as JSON");
  command.Footer(
      "Examples:\n"
      "  picchio inspect ~/models/qwen3-30b\n"
      "  picchio inspect ~/models/qwen3-30b/experts.picchioflat\n"
      "  picchio inspect ~/models/qwen3-30b --memory 12 24 --json");
  command.Run([flags] { return Run(*flags); });
}

}  // namespace picchio
