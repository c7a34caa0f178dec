#include "apps/verify/repair_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "apps/model_folder.h"
#include "apps/pack/container_records.h"
#include "apps/pack/record_check.h"
#include "apps/verify/check_store.h"
#include "base/aligned_buffer.h"
#include "base/units.h"

namespace picchio {
namespace {

Status SomebodyElse(const Path& place) {
  return Error(Code::kUnavailable, "another picchio is writing to {}: wait for it",
               PathText(place));
}

// Writes one record anew, with its padding. `buffer` has the padded record's size.
Status RepairRecord(const FlatIndex& index, const ContainerRecords& container, RecordPlace place,
                    std::span<std::byte> buffer, File& file) {
  const FlatEntry& entry = *index.Find(place.layer, place.expert);
  PICCHIO_RETURN_IF_ERROR(container.Read(place.layer, place.expert, buffer.first(entry.bytes)));
  const auto padding = buffer.subspan(entry.bytes);
  std::fill(padding.begin(), padding.end(), std::byte{0});
  if (const Status status = CheckRecord(index, place, buffer); !status.ok()) {
    return Error(Code::kCorrupt,
                 "the safetensors files have other bytes than the store was packed from ({}): run "
                 "picchio verify on the model, and pack it again",
                 status.message());
  }
  PICCHIO_RETURN_IF_ERROR(file.WriteAt(entry.offset, buffer));
  PICCHIO_RETURN_IF_ERROR(file.Sync());
  file.DropCache(entry.offset, entry.padded_bytes);
  PICCHIO_RETURN_IF_ERROR(file.ReadAt(entry.offset, buffer));
  return CheckRecord(index, place, buffer);
}

}  // namespace

std::string StoreRemedy(const Path& store, const Path& model_folder, bool only_records) {
  const Result<Manifest> manifest = LoadModelManifest(model_folder);
  if (!manifest.has_value()) {
    return only_records ? "copy it again, or name its model: picchio verify --repair --model MODEL"
                        : "copy it again, or make it anew with picchio pack";
  }
  if (!HasExpertContainers(*manifest)) {
    return fmt::format(
        "{} has no experts as safetensors to make it anew from: copy it again, or "
        "convert the checkpoint again",
        PathText(model_folder));
  }
  if (!only_records) {
    return fmt::format("run picchio pack {} -o {}", PathText(model_folder), PathText(store));
  }
  return fmt::format("run picchio verify {} --repair --model {}", PathText(store),
                     PathText(model_folder));
}

Result<RepairReport> RepairStore(const Path& store, const Path& model_folder, int num_threads,
                                 const std::atomic<bool>& stop) {
  const Result<FolderLock> lock = FolderLock::Take(ParentOf(store));
  if (!lock && lock.error().code() == Code::kUnavailable) return SomebodyElse(ParentOf(store));
  PICCHIO_RETURN_IF_ERROR(lock.status());
  PICCHIO_ASSIGN_OR_RETURN(File file, File::OpenForUpdate(store));
  return RepairStore(file, store, model_folder, num_threads, stop);
}

Result<RepairReport> RepairStore(File& file, const Path& store, const Path& model_folder,
                                 int num_threads, const std::atomic<bool>& stop) {
  // One file from the first look at it to the last write, and nobody else's meanwhile: a store that
  // is put in its place, by a pack into the folder that a link leads to, is another one.
  PICCHIO_ASSIGN_OR_RETURN(const bool locked, file.TryLock());
  if (!locked) return SomebodyElse(store);
  auto checked = CheckStore(file, num_threads, stop);
  if (!checked && checked.error().code() == Code::kCorrupt) {
    return Error(Code::kCorrupt, "{}; only records can be repaired: {}", checked.error().message(),
                 StoreRemedy(store, model_folder, /*only_records=*/false));
  }
  PICCHIO_RETURN_IF_ERROR(checked.status());
  RepairReport report{.num_records = checked->index.superblock().num_entries};
  Status failure;
  if (!checked->dense_fault.ok()) {
    failure = Error(Code::kCorrupt, "{}: {}; only records can be repaired: {}", PathText(store),
                    checked->dense_fault.message(),
                    StoreRemedy(store, model_folder, /*only_records=*/false));
  }
  if (checked->faults.empty()) {
    PICCHIO_RETURN_IF_ERROR(failure);
    return report;
  }

  PICCHIO_ASSIGN_OR_RETURN(const ModelFolder model, OpenModelFolder(model_folder));
  if (!HasExpertContainers(model.manifest)) {
    return Error(Code::kUnsupported,
                 "{} cannot be repaired: {} has no experts as safetensors; convert the checkpoint "
                 "again",
                 PathText(store), PathText(model_folder));
  }
  // The hashes of the records say more than a listing would.
  PICCHIO_RETURN_IF_ERROR(CheckFlatModel(checked->index, FlatModelOf(model),
                                         /*trust_unlisted=*/true, PathText(store)));
  PICCHIO_ASSIGN_OR_RETURN(
      const ContainerRecords container,
      ContainerRecords::Open(model.tensors, checked->index.layout(), model.config));
  PICCHIO_ASSIGN_OR_RETURN(
      AlignedBuffer buffer,
      AlignedBuffer::Allocate(checked->index.padded_record_bytes(), kMinFlatBlock));
  PICCHIO_ASSIGN_OR_RETURN(const bool in_place, file.IsAt(store));
  if (!in_place) {
    return Error(Code::kUnavailable,
                 "{} was replaced while it was checked, and nothing was written: run the command "
                 "again",
                 PathText(store));
  }
  for (const StoreFault& fault : checked->faults) {
    if (stop.load()) return Status(Code::kCancelled, "stopped");
    Status status = RepairRecord(checked->index, container, fault.place, buffer.bytes(), file);
    if (status.ok()) {
      ++report.num_repaired;
    } else if (failure.ok()) {
      failure = status.WithContext(PathText(store));
    }
  }
  PICCHIO_RETURN_IF_ERROR(failure);
  return report;
}

}  // namespace picchio
