#include "apps/pack/pack.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include "apps/model_folder.h"
#include "apps/pack/container_records.h"
#include "apps/pack/record_check.h"
#include "apps/pack/record_runs.h"
#include "apps/pack/store_file.h"
#include "apps/pack/store_listing.h"
#include "apps/pack/tensor_hashes.h"
#include "apps/progress.h"

namespace picchio {
namespace {

bool IsIn(const Path& folder, const Path& file) {
  std::error_code error;
  return std::filesystem::equivalent(ParentOf(file), folder, error);
}

// The store's name in the model's folder, or empty where it lies elsewhere.
std::string NameInFolder(const Path& folder, const Path& store) {
  return IsIn(folder, store) ? PathText(store.filename()) : std::string();
}

Result<FolderLock> LockedForWriting(const Path& folder) {
  Result<FolderLock> lock = FolderLock::Take(folder);
  if (!lock && lock.error().code() == Code::kUnavailable) {
    return Error(Code::kUnavailable, "another picchio is writing to {}: wait for it",
                 PathText(folder));
  }
  return lock;
}

// Keeps a slip of the hand in -o from costing another model its experts.
Status CheckNotOfAnotherModel(const Path& store) {
  const Result<Manifest> beside = LoadManifest(ParentOf(store));
  if (!beside) return Status::Ok();
  const std::string name = PathText(store.filename());
  if (std::ranges::find(beside->stores, name, &ManifestStore::name) == beside->stores.end()) {
    return Status::Ok();
  }
  return Error(Code::kInvalidArgument,
               "{} is the store of another model, the one in its folder: choose another name",
               PathText(store));
}

}  // namespace

Result<PackReport> Pack(const Path& model_folder, const PackOptions& options, int num_threads,
                        const std::atomic<bool>& stop) {
  const auto start = std::chrono::steady_clock::now();
  // Before anything is read that another pack may change.
  const Result<FolderLock> lock = LockedForWriting(model_folder);
  if (!lock && lock.error().code() == Code::kUnavailable) return lock.error();
  PICCHIO_ASSIGN_OR_RETURN(const ModelFolder model, OpenModelFolder(model_folder));
  PICCHIO_RETURN_IF_ERROR(lock.status());
  if (!HasExpertContainers(model.manifest)) {
    return Error(Code::kUnsupported,
                 "{} has its experts in its store alone, and pack makes stores from safetensors: "
                 "to have both, convert the checkpoint again with --keep-safetensors",
                 PathText(model_folder));
  }
  if (options.num_layers > model.config.num_hidden_layers) {
    return Error(Code::kInvalidArgument, "--layers is {}, and the model has {} layers",
                 *options.num_layers, model.config.num_hidden_layers);
  }
  StoreOptions store{.version = options.version.value_or(UsualStoreVersion(model.experts)),
                     .block_size = options.block_size};
  if (options.num_layers) store.num_layers = *options.num_layers;
  PICCHIO_ASSIGN_OR_RETURN(FlatIndex index, PlaceStore(model.config, model.experts, store));
  index.SetModelId(model.manifest.model_id());
  PICCHIO_ASSIGN_OR_RETURN(const ContainerRecords container,
                           ContainerRecords::Open(model.tensors, index.layout(), model.config));

  const TensorHashes hashes(model.manifest, index.layout());
  const auto sound = [&](const Status& status) {
    return status.WithContext(
        fmt::format("the safetensors files of {} are damaged (restore them from a copy, or convert "
                    "the checkpoint again)",
                    PathText(model_folder)));
  };
  PICCHIO_RETURN_IF_ERROR(sound(hashes.CheckBiases(model.tensors, model.config)));

  const Path output = options.output.value_or(model_folder / kFlatStoreName);
  const std::string name = NameInFolder(model_folder, output);
  PICCHIO_ASSIGN_OR_RETURN(const Path target, FollowLinks(output));
  std::optional<FolderLock> elsewhere;
  if (!IsIn(model_folder, target)) {
    PICCHIO_RETURN_IF_ERROR(CheckNotOfAnotherModel(target));
    PICCHIO_ASSIGN_OR_RETURN(FolderLock taken, LockedForWriting(ParentOf(target)));
    elsewhere.emplace(std::move(taken));
  }
  const StoreListing listing(model_folder, name);
  // A store of version 3 names its model itself: away from the folder it needs no listing.
  const bool listed = !name.empty() || store.version == RecordVersion::kV2;
  if (listed) {
    Status writable = listing.CheckWritable();
    if (!writable.ok() && name.empty()) {
      return writable.WithContext(
          "a store of version 2 must be listed in its model's manifest (--format v3 need not)");
    }
    PICCHIO_RETURN_IF_ERROR(writable);
  }
  PICCHIO_ASSIGN_OR_RETURN(StoreFile file, StoreFile::Create(output, index.store_bytes()));

  RecordRuns runs(index, file, stop);
  {
    Progress progress("packing", runs.bytes());
    const auto will_need = [&](RecordPlace place) {
      container.WillNeed(place.layer, place.expert);
    };
    const auto make = [&](RecordPlace place, std::span<std::byte> record) -> Status {
      PICCHIO_RETURN_IF_ERROR(container.Read(place.layer, place.expert, record));
      // Before the store's own hashes make whatever was read look right.
      PICCHIO_RETURN_IF_ERROR(sound(hashes.Check(place, record)));
      container.DropCache(place.layer, place.expert);
      SetRecordHashes(index, place, record);
      return Status::Ok();
    };
    PICCHIO_RETURN_IF_ERROR(runs.Write(num_threads, will_need, make, progress));
  }
  const std::vector<std::byte> head = index.SerializeHead();
  PICCHIO_RETURN_IF_ERROR(runs.WriteHead(head));
  PICCHIO_RETURN_IF_ERROR(file.Sync());
  if (options.read_back) PICCHIO_RETURN_IF_ERROR(runs.ReadBack(head, num_threads));
  const Sha256Digest& index_sha256 = index.superblock().index_sha256;
  Result<bool> announced = false;
  if (listed) announced = listing.Announce(index.store_bytes(), index_sha256);
  if (const Status status = announced ? file.Publish() : announced.error(); !status.ok()) {
    // Where only the folder's sync failed the store has its name, and must stay listed.
    const bool is_new = !announced || *announced;
    if (listed && is_new && !file.HasItsName()) (void)listing.Withdraw(index_sha256);
    return status;
  }
  if (listed) PICCHIO_RETURN_IF_ERROR(listing.Confirm(index.store_bytes(), index_sha256));

  return PackReport{
      .store = output,
      .version = store.version,
      .num_records = index.superblock().num_entries,
      .num_all_records = uint64_t{model.config.num_moe_layers()} * model.config.num_experts,
      .store_bytes = index.store_bytes(),
      .index_sha256 = index_sha256,
      .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
      .unbuffered = file.unbuffered(),
      .read_back = options.read_back};
}

}  // namespace picchio
