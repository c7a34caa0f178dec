#include "apps/diff/diff.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "apps/model_folder.h"
#include "apps/pack/model_records.h"
#include "apps/pack/record_check.h"
#include "apps/progress.h"
#include "apps/work_queue.h"
#include "base/aligned_buffer.h"

namespace picchio {
Result<DiffReport> DiffStore(const Path& store, const Path& model_folder, int num_threads,
                             const std::atomic<bool>& stop) {
  const auto start = std::chrono::steady_clock::now();
  PICCHIO_ASSIGN_OR_RETURN(const File file, File::OpenForRead(store));
  PICCHIO_ASSIGN_OR_RETURN(const FlatIndex index, FlatIndex::Read(file));
  PICCHIO_ASSIGN_OR_RETURN(const ModelFolder model, OpenModelFolder(model_folder));
  PICCHIO_RETURN_IF_ERROR(
      CheckFlatModel(index, FlatModelOf(model), /*trust_unlisted=*/true, file.name()));
  PICCHIO_ASSIGN_OR_RETURN(const ModelRecords of_model, ModelRecords::Open(model, index.layout()));

  const std::vector<RecordPlace> records = RecordsOf(index);
  const uint64_t padded = index.padded_record_bytes();
  struct Buffers {
    AlignedBuffer stored;
    AlignedBuffer expected;
  };
  std::vector<Buffers> buffers(static_cast<size_t>(num_threads));
  for (Buffers& pair : buffers) {
    PICCHIO_ASSIGN_OR_RETURN(pair.stored, AlignedBuffer::Allocate(padded, kMinFlatBlock));
    PICCHIO_ASSIGN_OR_RETURN(pair.expected, AlignedBuffer::Allocate(padded, kMinFlatBlock));
    std::ranges::fill(pair.expected.bytes(), std::byte{0});  // The padding stays so.
  }
  Progress progress("comparing", records.size() * padded);
  const Status status = RunOnThreads(num_threads, records.size(), [&](size_t n, int thread) {
    if (stop.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "stopped");
    const RecordPlace place = records[n];
    if (const size_t ahead = n + 2 * static_cast<size_t>(num_threads); ahead < records.size()) {
      const RecordPlace& next = records[ahead];
      file.WillNeed(index.Find(next.layer, next.expert)->offset, padded);
      of_model.WillNeed(next);
    }
    auto& [stored, expected] = buffers[static_cast<size_t>(thread)];
    PICCHIO_RETURN_IF_ERROR(
        file.ReadAt(index.Find(place.layer, place.expert)->offset, stored.bytes()));
    progress.Add(padded);
    PICCHIO_RETURN_IF_ERROR(of_model.Read(place, expected.bytes()));
    return of_model.Compare(index, place, stored.bytes(), expected.bytes());
  });
  if (status.code() == Code::kCorrupt) {
    return status.WithContext(
        fmt::format("{} differs from {}", file.name(), PathText(model_folder)));
  }
  PICCHIO_RETURN_IF_ERROR(status);
  return DiffReport{
      .num_records = records.size(),
      .num_all_records = uint64_t{model.config.num_moe_layers()} * model.config.num_experts,
      .bytes = records.size() * padded,
      .by_hash = of_model.by_hash(),
      .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

}  // namespace picchio
