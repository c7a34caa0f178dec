#include "apps/pack/pack.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "apps/model_folder.h"
#include "apps/pack/container_records.h"
#include "apps/pack/record_check.h"
#include "apps/pack/store_listing.h"
#include "apps/progress.h"
#include "apps/work_queue.h"
#include "base/aligned_buffer.h"
#include "base/page_memory.h"
#include "base/units.h"

namespace picchio {
namespace {

// What one thread reads, hashes and writes at a time: large enough for the device to run at its
// speed.
constexpr uint64_t kRunBytes = 8_MiB;
// All threads' runs together, unless the records themselves are larger.
constexpr uint64_t kMaxBufferBytes = 1_GiB;

// While some threads hash, as many wait for the disk.
int NumWorkers(int num_threads, uint64_t run_bytes) {
  const uint64_t affordable = std::max<uint64_t>(1, kMaxBufferBytes / run_bytes);
  return static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(num_threads) * 2, affordable));
}

// The store's name in the model's folder, or empty where it lies elsewhere.
std::string NameInFolder(const Path& folder, const Path& store) {
  std::error_code error;
  const Path parent = store.has_parent_path() ? store.parent_path() : Path(".");
  return std::filesystem::equivalent(parent, folder, error) ? PathText(store.filename())
                                                            : std::string();
}

class Packer {
 public:
  Packer(FlatIndex& index, const ContainerRecords& container, StoreFile& file,
         const std::atomic<bool>& stop)
      : index_(index),
        container_(container),
        file_(file),
        stop_(stop),
        records_(RecordsOf(index)),
        runs_(RunsOf(index, kRunBytes)),
        run_bytes_((runs_.front().last - runs_.front().first) * index.padded_record_bytes()) {}

  // All records, and their hashes into the index.
  Status WriteRecords(int num_threads) {
    Progress progress("packing", records_.size() * index_.padded_record_bytes());
    return ForEachRun(num_threads, [&](size_t run, size_t ahead, std::span<std::byte> buffer) {
      if (run + ahead < runs_.size()) {
        for (const RecordPlace& next : Places(run + ahead)) {
          container_.WillNeed(next.layer, next.expert);
        }
      }
      return WriteRun(run, buffer, progress);
    });
  }

  Status WriteHead(std::span<const std::byte> head) {
    PICCHIO_ASSIGN_OR_RETURN(AlignedBuffer aligned,
                             AlignedBuffer::Allocate(head.size(), kMinFlatBlock));
    std::memcpy(aligned.data(), head.data(), head.size());
    return file_.Write(0, aligned.bytes());
  }

  // Reads all of it from the disk and compares it with the index.
  Status ReadBack(std::span<const std::byte> head, int num_threads) {
    file_.DropCache();
    PICCHIO_ASSIGN_OR_RETURN(AlignedBuffer found,
                             AlignedBuffer::Allocate(head.size(), kMinFlatBlock));
    PICCHIO_RETURN_IF_ERROR(file_.Read(0, found.bytes()));
    if (!std::ranges::equal(found.bytes(), head)) {
      return Error(Code::kCorrupt, "{} does not read back as it was written: its first {} bytes",
                   PathText(file_.path()), head.size());
    }
    Progress progress("reading back", records_.size() * index_.padded_record_bytes());
    Status status = ForEachRun(num_threads, [&](size_t run, size_t, std::span<std::byte> buffer) {
      return CheckRun(run, buffer, progress);
    });
    if (status.code() != Code::kCorrupt) return status;
    return status.WithContext(PathText(file_.path()) + " does not read back as it was written");
  }

 private:
  std::span<const RecordPlace> Places(size_t run) const {
    return std::span(records_).subspan(runs_[run].first, runs_[run].last - runs_[run].first);
  }

  // Calls work(run, number of workers, buffer) for each run, each worker with a buffer of its own.
  template <typename Work>
  Status ForEachRun(int num_threads, Work work) {
    const int workers = NumWorkers(num_threads, run_bytes_);
    std::vector<PageMemory> buffers;
    for (int i = 0; i < workers; ++i) {
      PICCHIO_ASSIGN_OR_RETURN(PageMemory buffer, PageMemory::Allocate(run_bytes_));
      buffers.push_back(std::move(buffer));
    }
    return RunOnThreads(workers, runs_.size(), [&](size_t run, int worker) -> Status {
      if (stop_.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "stopped");
      return work(run, static_cast<size_t>(workers),
                  buffers[static_cast<size_t>(worker)].bytes().first(Places(run).size() *
                                                                     index_.padded_record_bytes()));
    });
  }

  Status WriteRun(size_t run, std::span<std::byte> buffer, Progress& progress) {
    const uint64_t padded = index_.padded_record_bytes();
    const uint64_t bytes = index_.layout().record_bytes;
    uint64_t at = 0;
    for (const RecordPlace& place : Places(run)) {
      const auto stored = buffer.subspan(at, padded);
      at += padded;
      const auto record = stored.first(bytes);
      PICCHIO_RETURN_IF_ERROR(container_.Read(place.layer, place.expert, record));
      container_.DropCache(place.layer, place.expert);
      std::memset(stored.data() + bytes, 0, padded - bytes);
      SetRecordHashes(index_, place, record);
    }
    const RecordPlace& first = Places(run).front();
    PICCHIO_RETURN_IF_ERROR(file_.Write(index_.Find(first.layer, first.expert)->offset, buffer));
    progress.Add(buffer.size());
    return Status::Ok();
  }

  Status CheckRun(size_t run, std::span<std::byte> buffer, Progress& progress) {
    const RecordPlace& first = Places(run).front();
    PICCHIO_RETURN_IF_ERROR(file_.Read(index_.Find(first.layer, first.expert)->offset, buffer));
    const uint64_t padded = index_.padded_record_bytes();
    uint64_t at = 0;
    for (const RecordPlace& place : Places(run)) {
      PICCHIO_RETURN_IF_ERROR(CheckRecord(index_, place, buffer.subspan(at, padded)));
      at += padded;
    }
    progress.Add(buffer.size());
    return Status::Ok();
  }

  FlatIndex& index_;
  const ContainerRecords& container_;
  StoreFile& file_;
  const std::atomic<bool>& stop_;
  const std::vector<RecordPlace> records_;
  const std::vector<RecordRun> runs_;
  const uint64_t run_bytes_;  // Of the first run, which is the longest.
};

}  // namespace

Result<PackReport> Pack(const Path& model_folder, const PackOptions& options, int num_threads,
                        const std::atomic<bool>& stop, DiskCalls& calls) {
  const auto start = std::chrono::steady_clock::now();
  // Before anything is read that another pack may change.
  const Result<FolderLock> lock = FolderLock::Take(model_folder);
  if (!lock && lock.error().code() == Code::kUnavailable) {
    return Error(Code::kUnavailable, "another picchio is writing to {}: wait for it",
                 PathText(model_folder));
  }
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

  const Path output = options.output.value_or(model_folder / kFlatStoreName);
  const std::string name = NameInFolder(model_folder, output);
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
  PICCHIO_ASSIGN_OR_RETURN(StoreFile file, StoreFile::Create(output, index.store_bytes(), calls));

  Packer packer(index, container, file, stop);
  PICCHIO_RETURN_IF_ERROR(packer.WriteRecords(num_threads));
  const std::vector<std::byte> head = index.SerializeHead();
  PICCHIO_RETURN_IF_ERROR(packer.WriteHead(head));
  PICCHIO_RETURN_IF_ERROR(file.Sync());
  if (options.read_back) PICCHIO_RETURN_IF_ERROR(packer.ReadBack(head, num_threads));
  const Sha256Digest& index_sha256 = index.superblock().index_sha256;
  if (listed) PICCHIO_RETURN_IF_ERROR(listing.Announce(index.store_bytes(), index_sha256));
  PICCHIO_RETURN_IF_ERROR(file.Publish());
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
