#include "apps/pack/record_runs.h"

#include <algorithm>
#include <cstring>

#include "apps/pack/for_each_run.h"
#include "base/aligned_buffer.h"

namespace picchio {

Status RecordRuns::Write(int num_threads, FunctionRef<void(RecordPlace)> will_need,
                         FunctionRef<Status(RecordPlace, std::span<std::byte>)> make,
                         Progress& progress) {
  const uint64_t bytes = index_.layout().record_bytes;
  const auto write = [&](const RunInHand& run) -> Status {
    std::ranges::for_each(run.ahead, will_need);
    for (size_t i = 0; i < run.places.size(); ++i) {
      const auto record = run.record(i);
      PICCHIO_RETURN_IF_ERROR(make(run.places[i], record.first(bytes)));
      std::ranges::fill(record.subspan(bytes), std::byte{0});
    }
    PICCHIO_RETURN_IF_ERROR(file_.Write(run.offset, run.buffer));
    progress.Add(run.buffer.size());
    return Status::Ok();
  };
  // While some threads hash, as many wait for the disk.
  return ForEachRun(index_, 2 * num_threads, stop_, write);
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
  const auto check = [&](const RunInHand& run) -> Status {
    PICCHIO_RETURN_IF_ERROR(file_.Read(run.offset, run.buffer));
    for (size_t i = 0; i < run.places.size(); ++i) {
      PICCHIO_RETURN_IF_ERROR(CheckRecord(index_, run.places[i], run.record(i)));
    }
    progress.Add(run.buffer.size());
    return Status::Ok();
  };
  Status status = ForEachRun(index_, 2 * num_threads, stop_, check);
  if (status.code() != Code::kCorrupt) return status;
  return status.WithContext(PathText(file_.path()) + " does not read back as it was written");
}

}  // namespace picchio
