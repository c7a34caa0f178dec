#include <cstdio>
#include <memory>
#include <string>

#include "apps/commands/command.h"
#include "apps/commands/flag_checks.h"
#include "apps/commands/print_json.h"
#include "apps/interrupt.h"
#include "apps/model_folder.h"
#include "apps/pack/store_listing.h"
#include "apps/verify/check_store.h"
#include "apps/verify/repair_store.h"
#include "apps/verify/verify.h"
#include "base/human.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/thread_pool.h"

namespace picchio {
namespace {

struct VerifyFlags {
  std::string path;  // Of a model's folder, or of a store.
  std::string model;
  bool repair = false;
  int threads = 0;
  bool json = false;
};

double Rate(uint64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / 1e9 / seconds : 0;
}

// Passes a failure on, as JSON too where that was asked for.
Status Report(const VerifyFlags& flags, const Status& fault) {
  if (flags.json) PrintJson({{"whole", false}, {"fault", fault.message()}});
  return fault;
}

Status Repair(const Path& store, const Path& model, int threads) {
  PICCHIO_ASSIGN_OR_RETURN(const RepairReport report,
                           RepairStore(store, model, threads, InterruptFlag()));
  std::fprintf(stderr, "%s: %llu of %llu records repaired\n", PathText(store).c_str(),
               static_cast<unsigned long long>(report.num_repaired),
               static_cast<unsigned long long>(report.num_records));
  return Status::Ok();
}

Status RunStore(const VerifyFlags& flags, int threads) {
  const Path store = flags.path;
  const bool named = !flags.model.empty();
  const Path model = named ? Path(flags.model) : ParentOf(store);
  if (flags.repair) {
    if (Status status = Repair(store, model, threads); !status.ok()) return Report(flags, status);
  }
  const Result<CheckedStore> checked = CheckStore(store, threads, InterruptFlag());
  Status fault = checked ? FirstFault(*checked, PathText(store)) : checked.error();
  if (fault.code() == Code::kCorrupt) {
    fault = Status(fault.code(),
                   fault.message() + "; " + StoreRemedy(store, model, checked.has_value()));
  }
  Result<bool> of_model = false;
  if (fault.ok() && (named || SomethingExists(model / kManifestName))) {
    of_model = IsStoreOfModel(checked->index, model, PathText(store));
    if (!of_model) {
      fault = of_model.error();
    } else if (named && !*of_model) {
      fault = Error(Code::kCorrupt, "{} is whole, and not a store of the model in {}",
                    PathText(store), PathText(model));
    }
  }
  if (!fault.ok()) return Report(flags, fault);
  const FlatSuperblock& superblock = checked->index.superblock();
  const double rate = Rate(checked->bytes, checked->seconds);
  if (flags.json) {
    PrintJson({{"whole", true},
               {"records", superblock.num_entries},
               {"of_model", *of_model},
               {"bytes", checked->bytes},
               {"index_sha256", superblock.index_sha256.Hex()},
               {"seconds", checked->seconds},
               {"gb_per_s", rate}});
    return Status::Ok();
  }
  std::printf("whole: %u experts, %s in %s (%.2f GB/s)%s\n", superblock.num_entries,
              FormatBytes(checked->bytes).c_str(), FormatDuration(checked->seconds).c_str(), rate,
              *of_model ? ", as its model says" : "");
  return Status::Ok();
}

// The stores of a model that lie in its folder.
Status RepairStores(const VerifyFlags& flags, int threads) {
  PICCHIO_ASSIGN_OR_RETURN(const Manifest manifest, LoadModelManifest(flags.path));
  for (const ManifestStore& store : manifest.stores) {
    const Path path = Path(flags.path) / store.name;
    if (!IsListedInFolder(store) || !FileExists(path)) continue;
    PICCHIO_RETURN_IF_ERROR(Repair(path, flags.path, threads));
  }
  return Status::Ok();
}

Status Run(const VerifyFlags& flags) {
  const int threads = flags.threads > 0 ? flags.threads : UsableCpus();
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(flags.path, ignored);
  if (!folder && SomethingExists(flags.path)) return RunStore(flags, threads);
  if (!flags.model.empty()) {
    return Error(Code::kInvalidArgument, "--model goes with a store, and {} is not a file",
                 flags.path);
  }
  if (flags.repair) {
    if (Status status = RepairStores(flags, threads); !status.ok()) return Report(flags, status);
  }
  const Result<VerifyReport> result = VerifyModel(flags.path, threads, InterruptFlag());
  if (!result) return Report(flags, result.error());
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
  for (const std::string& name : report.absent_stores) {
    std::fprintf(stderr, "warning: the manifest lists the store %s, which is not there\n",
                 Quoted(name).c_str());
  }
  const double rate = Rate(report.bytes, report.seconds);
  if (flags.json) {
    const Json json{{"whole", true},
                    {"model_id", report.model_id},
                    {"tensors", report.num_tensors},
                    {"files", report.num_files},
                    {"stores", report.num_stores},
                    {"bytes", report.bytes},
                    {"seconds", report.seconds},
                    {"unlisted", report.unlisted},
                    {"absent_stores", report.absent_stores},
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

void AddVerifyCommand(Command& commands) {
  auto flags = std::make_shared<VerifyFlags>();
  Command command = commands.Sub("verify", "Prove that a model is whole, to the last bit");
  command.Option("MODEL", flags->path, "Folder of the model, or a store")
      .Required()
      .Check(NotEmpty());
  command.Switch("--repair", flags->repair,
                 "First rewrite damaged records of the store from the model's safetensors files");
  command.Option("--model", flags->model, "Of a store: its model (default: the folder it is in)")
      .Check(NotEmpty());
  command.Option("-t,--threads", flags->threads, "Threads (default: all CPUs)")
      .Check(WholeNumberFrom(1, 256));
  command.Switch("--json", flags->json, "Report as JSON");
  command.Footer(
      "Reads every byte and compares it with the manifest. Exit code 1 and the first fault where\n"
      "something differs. Files that the manifest does not list are named, and no fault.\n\n"
      "Examples:\n"
      "  picchio verify ~/models/qwen3-30b\n"
      "  picchio verify /fast/qwen3.picchioflat --repair --model ~/models/qwen3-30b");
  command.Run([flags] { return Run(*flags); });
}

}  // namespace picchio
