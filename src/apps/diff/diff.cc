#include "apps/diff/diff.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "apps/model_folder.h"
#include "apps/pack/for_each_run.h"
#include "apps/pack/model_records.h"
#include "apps/pack/record_check.h"
#include "apps/progress.h"
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

  const uint64_t num_records = index.superblock().num_entries;
  const uint64_t padded = index.padded_record_bytes();
  std::vector<AlignedBuffer> expected(static_cast<size_t>(num_threads));  // A record a thread.
  Progress progress("comparing", num_records * padded);
  const auto compare = [&](const RunInHand& run) -> Status {
    for (const RecordPlace& place : run.ahead) {
      file.WillNeed(index.Find(place.layer, place.expert)->offset, padded);
      of_model.WillNeed(place);
    }
    AlignedBuffer& of_worker = expected[run.worker];
    if (of_worker.bytes().empty()) {
      PICCHIO_ASSIGN_OR_RETURN(of_worker, AlignedBuffer::Allocate(padded, kMinFlatBlock));
      std::ranges::fill(of_worker.bytes(), std::byte{0});  // The padding stays so.
    }
    PICCHIO_RETURN_IF_ERROR(file.ReadAt(run.offset, run.buffer));
    for (size_t i = 0; i < run.places.size(); ++i) {
      PICCHIO_RETURN_IF_ERROR(of_model.Read(run.places[i], of_worker.bytes()));
      PICCHIO_RETURN_IF_ERROR(
          of_model.Compare(index, run.places[i], run.record(i), of_worker.bytes()));
    }
    progress.Add(run.buffer.size());
    return Status::Ok();
  };
  const Status status = ForEachRun(index, num_threads, stop, compare);
  if (status.code() == Code::kCorrupt) {
    return status.WithContext(
        fmt::format("{} differs from {}", file.name(), PathText(model_folder)));
  }
  PICCHIO_RETURN_IF_ERROR(status);
  return DiffReport{
      .num_records = num_records,
      .num_all_records = uint64_t{model.config.num_moe_layers()} * model.config.num_experts,
      .bytes = num_records * padded,
      .by_hash = of_model.by_hash(),
      .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

}  // namespace picchio
