#include "apps/pack/record_runs.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "apps/work_queue.h"
#include "base/aligned_buffer.h"
#include "base/page_memory.h"
#include "base/units.h"

namespace picchio {
namespace {

// What one thread makes, hashes and writes at a time: large enough for the device to run at its
// speed.
constexpr uint64_t kRunBytes = 8_MiB;
// All threads' runs together, unless the records themselves are larger.
constexpr uint64_t kMaxBufferBytes = 1_GiB;

// While some threads hash, as many wait for the disk.
int NumWorkers(int num_threads, uint64_t run_bytes) {
  const uint64_t affordable = std::max<uint64_t>(1, kMaxBufferBytes / run_bytes);
  return static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(num_threads) * 2, affordable));
}

}  // namespace

RecordRuns::RecordRuns(const FlatIndex& index, StoreFile& file, const std::atomic<bool>& stop)
    : index_(index),
      file_(file),
      stop_(stop),
      records_(RecordsOf(index)),
      runs_(RunsOf(index, kRunBytes)),
      run_bytes_((runs_.front().last - runs_.front().first) * index.padded_record_bytes()) {}

Status RecordRuns::Write(int num_threads, FunctionRef<void(RecordPlace)> will_need,
                         FunctionRef<Status(RecordPlace, std::span<std::byte>)> make,
                         Progress& progress) {
  const uint64_t padded = index_.padded_record_bytes();
  const uint64_t bytes = index_.layout().record_bytes;
  const auto write = [&](size_t run, size_t workers, std::span<std::byte> buffer) -> Status {
    if (run + workers < runs_.size()) std::ranges::for_each(Places(run + workers), will_need);
    uint64_t at = 0;
    for (const RecordPlace& place : Places(run)) {
      PICCHIO_RETURN_IF_ERROR(make(place, buffer.subspan(at, bytes)));
      std::memset(buffer.data() + at + bytes, 0, padded - bytes);
      at += padded;
    }
    const RecordPlace& first = Places(run).front();
    PICCHIO_RETURN_IF_ERROR(file_.Write(index_.Find(first.layer, first.expert)->offset, buffer));
    progress.Add(buffer.size());
    return Status::Ok();
  };
  return ForEachRun(num_threads, write);
}

Status RecordRuns::WriteHead(std::span<const std::byte> head) {
  PICCHIO_ASSIGN_OR_RETURN(AlignedBuffer aligned,
                           AlignedBuffer::Allocate(head.size(), kMinFlatBlock));
  std::memcpy(aligned.data(), head.data(), head.size());
  return file_.Write(0, aligned.bytes());
}

Status RecordRuns::ReadBack(std::span<const std::byte> head, int num_threads) {
  file_.DropCache();
  PICCHIO_ASSIGN_OR_RETURN(AlignedBuffer found,
                           AlignedBuffer::Allocate(head.size(), kMinFlatBlock));
  PICCHIO_RETURN_IF_ERROR(file_.Read(0, found.bytes()));
  if (!std::ranges::equal(found.bytes(), head)) {
    return Error(Code::kCorrupt, "{} does not read back as it was written: its first {} bytes",
                 PathText(file_.path()), head.size());
  }
  Progress progress("reading back", bytes());
  const auto check = [&](size_t run, size_t, std::span<std::byte> buffer) {
    return CheckRun(run, buffer, progress);
  };
  Status status = ForEachRun(num_threads, check);
  if (status.code() != Code::kCorrupt) return status;
  return status.WithContext(PathText(file_.path()) + " does not read back as it was written");
}

std::span<const RecordPlace> RecordRuns::Places(size_t run) const {
  return std::span(records_).subspan(runs_[run].first, runs_[run].last - runs_[run].first);
}

Status RecordRuns::ForEachRun(int num_threads, Work work) {
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

Status RecordRuns::CheckRun(size_t run, std::span<std::byte> buffer, Progress& progress) {
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

}  // namespace picchio
