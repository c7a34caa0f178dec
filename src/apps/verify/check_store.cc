#include "apps/verify/check_store.h"

#include <chrono>
#include <utility>

#include "apps/hash_range.h"
#include "apps/model_folder.h"
#include "apps/pack/for_each_run.h"
#include "apps/pack/store_listing.h"
#include "apps/progress.h"

namespace picchio {
namespace {

// Of all records, with those that `also` refuses. A run that cannot be read is the fault of each of
// its records.
Status CheckRecords(const File& file, const RecordCheck& also, int num_threads, Progress& progress,
                    const std::atomic<bool>& stop, CheckedStore& checked) {
  const FlatIndex& index = checked.index;
  std::vector<Status> status(index.superblock().num_entries);
  const auto check = [&](const RunInHand& run) -> Status {
    for (const RecordPlace& place : run.ahead) {
      const FlatEntry& entry = *index.Find(place.layer, place.expert);
      file.WillNeed(entry.offset, entry.padded_bytes);
    }
    const Status read = file.ReadAt(run.offset, run.buffer);
    for (size_t i = 0; i < run.places.size(); ++i) {
      Status& of_record = status[run.first + i];
      of_record = read.ok() ? CheckRecord(index, run.places[i], run.record(i)) : read;
      if (of_record.ok() && also) {
        of_record = also(run.places[i], run.record(i).first(index.layout().record_bytes));
      }
    }
    progress.Add(run.buffer.size());
    return Status::Ok();
  };
  PICCHIO_RETURN_IF_ERROR(ForEachRun(index, num_threads, stop, check));
  const std::vector<RecordPlace> records = RecordsOf(index);
  for (size_t i = 0; i < records.size(); ++i) {
    if (!status[i].ok()) checked.faults.push_back({records[i], std::move(status[i])});
  }
  return Status::Ok();
}

}  // namespace

Result<CheckedStore> CheckStore(const Path& store, int num_threads, const std::atomic<bool>& stop,
                                const RecordCheck& also) {
  PICCHIO_ASSIGN_OR_RETURN(const File file, File::OpenForRead(store));
  return CheckStore(file, num_threads, stop, also);
}

Result<CheckedStore> CheckStore(const File& file, int num_threads, const std::atomic<bool>& stop,
                                const RecordCheck& also) {
  const auto start = std::chrono::steady_clock::now();
  PICCHIO_ASSIGN_OR_RETURN(FlatIndex index, FlatIndex::Read(file));
  CheckedStore checked{.index = std::move(index), .faults = {}, .dense_fault = {}};
  checked.bytes = file.size();
  const FlatSuperblock& superblock = checked.index.superblock();
  Progress progress("verifying the store", file.size());
  progress.Add(superblock.data_offset());
  PICCHIO_RETURN_IF_ERROR(CheckRecords(file, also, num_threads, progress, stop, checked));
  if (superblock.dense_bytes > 0) {
    PICCHIO_ASSIGN_OR_RETURN(
        const Sha256Digest found,
        HashRange(file, superblock.dense_offset, superblock.dense_bytes, progress, stop));
    if (found != superblock.dense_sha256) {
      checked.dense_fault =
          Error(Code::kCorrupt, "the dense image has the SHA-256 {}, the superblock says {}",
                found.Hex(), superblock.dense_sha256.Hex());
    }
  }
  checked.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return checked;
}

Result<bool> IsStoreOfModel(const FlatIndex& index, const Path& model_folder,
                            std::string_view where) {
  PICCHIO_ASSIGN_OR_RETURN(const Manifest manifest, LoadModelManifest(model_folder));
  const FlatSuperblock& store = index.superblock();
  const bool known = store.version == RecordVersion::kV3
                         ? store.model_id == manifest.model_id()
                         : FindListedStore(manifest, store.index_sha256) != nullptr;
  if (!known) return false;
  PICCHIO_ASSIGN_OR_RETURN(const FlatModel model, ReadFlatModel(model_folder, manifest));
  PICCHIO_RETURN_IF_ERROR(CheckFlatModel(index, model, /*trust_unlisted=*/true, where));
  return true;
}

Status FirstFault(const CheckedStore& checked, const std::string& name) {
  const size_t num_faults = checked.faults.size() + (checked.dense_fault.ok() ? 0 : 1);
  if (num_faults == 0) return Status::Ok();
  const Status& first =
      checked.faults.empty() ? checked.dense_fault : checked.faults.front().status;
  const std::string more = num_faults > 1 ? fmt::format(" ({} more faults)", num_faults - 1) : "";
  return Status(first.code(), fmt::format("{}: {}{}", name, first.message(), more),
                first.native_error());
}

}  // namespace picchio
