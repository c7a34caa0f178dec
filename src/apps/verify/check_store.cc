#include "apps/verify/check_store.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "apps/hash_range.h"
#include "apps/progress.h"
#include "apps/work_queue.h"
#include "base/page_memory.h"
#include "base/units.h"

namespace picchio {
namespace {

constexpr uint64_t kRunBytes = 8_MiB;

// Of all records, with those that `also` refuses. A run that cannot be read is the fault of each of
// its records.
Status CheckRecords(const File& file, const RecordCheck& also, int num_threads, Progress& progress,
                    const std::atomic<bool>& stop, CheckedStore& checked) {
  const FlatIndex& index = checked.index;
  const std::vector<RecordPlace> records = RecordsOf(index);
  const std::vector<RecordRun> runs = RunsOf(index, kRunBytes);
  if (runs.empty()) return Status::Ok();
  const uint64_t padded = index.padded_record_bytes();
  std::vector<PageMemory> buffers;
  for (int i = 0; i < num_threads; ++i) {
    PICCHIO_ASSIGN_OR_RETURN(PageMemory buffer, PageMemory::Allocate(runs.front().last * padded));
    buffers.push_back(std::move(buffer));
  }
  std::vector<Status> status(records.size());
  PICCHIO_RETURN_IF_ERROR(RunOnThreads(num_threads, runs.size(), [&](size_t n, int thread) {
    if (stop.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "stopped");
    const RecordRun& run = runs[n];
    const auto offset_of = [&](size_t i) {
      return index.Find(records[i].layer, records[i].expert)->offset;
    };
    const size_t ahead = n + static_cast<size_t>(num_threads);
    if (ahead < runs.size()) {
      file.WillNeed(offset_of(runs[ahead].first), (runs[ahead].last - runs[ahead].first) * padded);
    }
    const auto buffer =
        buffers[static_cast<size_t>(thread)].bytes().first((run.last - run.first) * padded);
    const Status read = file.ReadAt(offset_of(run.first), buffer);
    for (size_t i = run.first; i < run.last; ++i) {
      const auto stored = buffer.subspan((i - run.first) * padded, padded);
      status[i] = read.ok() ? CheckRecord(index, records[i], stored) : read;
      if (status[i].ok() && also) {
        status[i] = also(records[i], stored.first(index.layout().record_bytes));
      }
    }
    progress.Add(buffer.size());
    return Status::Ok();
  }));
  for (size_t i = 0; i < records.size(); ++i) {
    if (!status[i].ok()) checked.faults.push_back({records[i], std::move(status[i])});
  }
  return Status::Ok();
}

}  // namespace

Result<CheckedStore> CheckStore(const Path& store, int num_threads, const std::atomic<bool>& stop,
                                const RecordCheck& also) {
  const auto start = std::chrono::steady_clock::now();
  PICCHIO_ASSIGN_OR_RETURN(const File file, File::OpenForRead(store));
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
