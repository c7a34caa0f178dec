#include "apps/verify/verify.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/hash_range.h"
#include "apps/model_folder.h"
#include "apps/pack/store_listing.h"
#include "apps/pack/tensor_hashes.h"
#include "apps/progress.h"
#include "apps/verify/check_store.h"
#include "apps/work_queue.h"
#include "base/foreign_content.h"
#include "base/hash.h"
#include "base/printable.h"
#include "experts/use_counters.h"
#include "format/expert_container.h"
#include "format/flat_index.h"
#include "format/tensor_directory.h"

namespace picchio {
namespace {

Status CheckHash(const Sha256Digest& found, const Sha256Digest& expected) {
  if (found == expected) return Status::Ok();
  return Error(Code::kCorrupt, "SHA-256 {}, the manifest says {}", found.Hex(), expected.Hex());
}

// One thing to hash: a whole companion file, a container's header or a tensor.
struct Item {
  std::string what;  // "tensor x in file y", for messages.
  const RandomAccessFile* file;
  uint64_t offset;
  uint64_t bytes;
  const Sha256Digest* expected;
};

// The header's bytes: up to where the first tensor begins.
uint64_t DataStart(const TensorDirectory& tensors, size_t file_idx) {
  uint64_t start = tensors.file_bytes(file_idx);
  for (const TensorEntry& tensor : tensors.tensors()) {
    if (tensor.file_idx == file_idx) start = std::min(start, tensor.offset);
  }
  return start;
}

Result<std::vector<std::string>> UnlistedFiles(const Path& folder, const Manifest& manifest) {
  std::set<std::string, std::less<>> listed = {std::string(kManifestName),
                                               std::string(kUseCountersName)};
  for (const ManifestFile& file : manifest.files) listed.insert(file.name);
  for (const ManifestContainer& container : manifest.containers) listed.insert(container.name);
  for (const ManifestStore& store : manifest.stores) listed.insert(store.name);
  PICCHIO_ASSIGN_OR_RETURN(std::vector<std::string> names, ListFiles(folder));
  std::erase_if(names, [&](const std::string& name) { return listed.contains(name); });
  return names;
}

// One store in the folder: whole, listed, of this model, and with the tensors that the manifest
// says are in it. Adds to the report.
Status CheckListedStore(const Path& folder, const Manifest& manifest, const std::string& name,
                        int num_threads, const std::atomic<bool>& stop, VerifyReport& report) {
  PICCHIO_ASSIGN_OR_RETURN(const FlatModel model, ReadFlatModel(folder, manifest));
  const auto num_tensors = std::ranges::count(manifest.tensors, name, &ManifestTensor::file);
  std::optional<TensorHashes> hashes;
  RecordCheck check_tensors;
  if (num_tensors > 0) {
    PICCHIO_ASSIGN_OR_RETURN(const File file, File::OpenForRead(folder / name));
    PICCHIO_ASSIGN_OR_RETURN(const FlatIndex index, FlatIndex::Read(file));
    const uint64_t held =
        index.superblock().num_entries * ExpertTensors(index.layout(), 0, 0).size();
    if (held != static_cast<uint64_t>(num_tensors)) {
      return Error(Code::kCorrupt, "{} holds {} tensors, the manifest says {}", file.name(), held,
                   num_tensors);
    }
    hashes.emplace(manifest, index.layout());
    check_tensors = [&](RecordPlace place, std::span<const std::byte> record) {
      return hashes->Check(place, record);
    };
  }
  PICCHIO_ASSIGN_OR_RETURN(const CheckedStore checked,
                           CheckStore(folder / name, num_threads, stop, check_tensors));
  // The listing, and what no hash covers: version 2's superblock.
  const Status same =
      CheckFlatModel(checked.index, model, /*trust_unlisted=*/false, PathText(folder / name));
  if (!same.ok()) {
    return Error(Code::kCorrupt, "{}; pack the model again", same.message());
  }
  // Version 3 is tied to the model by its id, and to the manifest by this.
  const ManifestStore* listed = FindListedStore(manifest, checked.index.superblock().index_sha256);
  if (listed == nullptr || listed->bytes != checked.bytes) {
    return Error(Code::kCorrupt,
                 "{} is not the store that the manifest lists: its index has the SHA-256 {}; pack "
                 "the model again",
                 PathText(folder / name), checked.index.superblock().index_sha256.Hex());
  }
  report.bytes += checked.bytes;
  ++report.num_files;
  ++report.num_stores;
  return FirstFault(checked, PathText(folder / name));
}

}  // namespace

Result<VerifyReport> VerifyModel(const Path& folder, int num_threads,
                                 const std::atomic<bool>& stop) {
  const auto start = std::chrono::steady_clock::now();
  PICCHIO_ASSIGN_OR_RETURN(const Manifest manifest, LoadModelManifest(folder));

  std::vector<File> files;
  std::vector<Item> items;
  files.reserve(manifest.files.size() + manifest.containers.size());
  for (const ManifestFile& listed : manifest.files) {
    PICCHIO_ASSIGN_OR_RETURN(File file, File::OpenForRead(folder / listed.name));
    if (file.size() != listed.bytes) {
      PICCHIO_RETURN_IF_ERROR(CheckNotForeign(file));
      return Error(Code::kCorrupt, "{} has {} bytes, the manifest says {}", file.name(),
                   file.size(), listed.bytes);
    }
    files.push_back(std::move(file));
    items.push_back({listed.name, &files.back(), 0, listed.bytes, &listed.sha256});
  }
  PICCHIO_ASSIGN_OR_RETURN(const TensorDirectory tensors, OpenTensors(folder, manifest));
  const size_t first_container = files.size();
  for (size_t i = 0; i < manifest.containers.size(); ++i) {
    const ManifestContainer& listed = manifest.containers[i];
    PICCHIO_ASSIGN_OR_RETURN(File file, File::OpenForRead(folder / listed.name));
    files.push_back(std::move(file));
    items.push_back({"the header of " + listed.name, &files.back(), 0, DataStart(tensors, i),
                     &listed.header_sha256});
  }
  for (const ManifestTensor& listed : manifest.tensors) {
    if (IsInStore(manifest, listed)) continue;
    const TensorEntry& found = *tensors.Find(listed.name);
    items.push_back({"tensor " + Quoted(listed.name) + " in " + listed.file,
                     &files[first_container + found.file_idx], found.offset, found.bytes,
                     &listed.sha256});
  }

  VerifyReport report{.num_tensors = manifest.tensors.size(),
                      .num_files = manifest.files.size() + manifest.containers.size(),
                      .model_id = manifest.model_id().Hex()};
  PICCHIO_ASSIGN_OR_RETURN(report.unlisted, UnlistedFiles(folder, manifest));
  for (const Item& item : items) report.bytes += item.bytes;
  Progress progress("verifying", report.bytes);
  std::vector<Status> faults(items.size());
  PICCHIO_RETURN_IF_ERROR(RunOnThreads(num_threads, items.size(), [&](size_t i, int) -> Status {
    const Item& item = items[i];
    const auto hash = HashRange(*item.file, item.offset, item.bytes, progress, stop);
    if (!hash && hash.error().code() == Code::kCancelled) return hash.error();
    faults[i] = hash ? CheckHash(*hash, *item.expected) : hash.error();
    return Status::Ok();
  }));
  std::vector<Status> store_faults;
  for (const ManifestStore& listed : manifest.stores) {
    if (!IsListedInFolder(listed)) continue;
    if (!HoldsTensors(manifest, listed) && !FileExists(folder / listed.name)) {
      report.absent_stores.push_back(listed.name);
      continue;
    }
    Status status = CheckListedStore(folder, manifest, listed.name, num_threads, stop, report);
    if (status.code() == Code::kCancelled) return status;
    if (!status.ok()) store_faults.push_back(std::move(status));
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  const auto is_fault = [](const Status& status) { return !status.ok(); };
  const size_t num_faults =
      static_cast<size_t>(std::ranges::count_if(faults, is_fault)) + store_faults.size();
  if (num_faults == 0) return report;
  const auto first = std::ranges::find_if(faults, is_fault);
  const Status fault =
      first == faults.end()
          ? store_faults.front()
          : first->WithContext(items[static_cast<size_t>(first - faults.begin())].what);
  const std::string more = num_faults > 1 ? fmt::format(" ({} more faults)", num_faults - 1) : "";
  const char* remedy = first == faults.end() && HasExpertContainers(manifest)
                           ? "run picchio verify --repair, or pack the model again"
                           : "copy the file again or convert the checkpoint again";
  return Status(fault.code(), fmt::format("{}{}: {}", fault.message(), more, remedy));
}

}  // namespace picchio
