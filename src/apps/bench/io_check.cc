#include "apps/bench/io_check.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "apps/inspect/inspect_store.h"
#include "apps/model_folder.h"
#include "apps/pack/model_records.h"
#include "apps/progress.h"
#include "base/aligned_buffer.h"
#include "base/page_memory.h"
#include "format/flat_model.h"

namespace picchio {
namespace {

// Records that are read ahead of the one that is compared.
constexpr size_t kAhead = 8;

// A way, with reads of the next records in flight.
class Reader {
 public:
  static Result<std::unique_ptr<Reader>> Open(const Path& store, IoWay way, const FlatIndex& index,
                                              std::span<const RecordPlace> records) {
    auto reader = std::unique_ptr<Reader>(new Reader(way, index, records));
    PICCHIO_ASSIGN_OR_RETURN(reader->device_,
                             OpenIoWay(store, way,
                                       {.depth = static_cast<int>(kAhead),
                                        .max_alignment = index.superblock().block_size}));
    PICCHIO_ASSIGN_OR_RETURN(reader->queue_, reader->device_->OpenQueue());
    PICCHIO_ASSIGN_OR_RETURN(reader->memory_, PageMemory::Allocate(kAhead * reader->stride_));
    PICCHIO_RETURN_IF_ERROR(reader->queue_->Attach(reader->memory_.bytes()));
    return reader;
  }

  IoWay way() const { return way_; }

  // Record n with its padding, valid until the next call; calls are for n = 0, 1, 2, ...
  Result<std::span<const std::byte>> Get(size_t n) {
    while (num_submitted_ < std::min(records_.size(), n + kAhead)) {
      const RecordPlace place = records_[num_submitted_];
      const DeviceRead read{.offset = index_.Find(place.layer, place.expert)->offset,
                            .out = Buffer(num_submitted_),
                            .tag = num_submitted_};
      if (queue_->Submit({&read, 1}) != 1) break;
      ready_[num_submitted_ % kAhead] = false;
      ++num_submitted_;
    }
    while (!ready_[n % kAhead]) {
      DeviceCompletion completion;
      if (queue_->Reap({&completion, 1}, kForever) != 1) {
        return Status(Code::kUnavailable, "the device lost a read");
      }
      PICCHIO_RETURN_IF_ERROR(completion.status);
      ready_[completion.tag % kAhead] = true;
    }
    return std::span<const std::byte>(Buffer(n));
  }

 private:
  Reader(IoWay way, const FlatIndex& index, std::span<const RecordPlace> records)
      : way_(way),
        index_(index),
        records_(records),
        stride_(RoundUp(index.padded_record_bytes(), 64_KiB)) {}

  std::span<std::byte> Buffer(size_t n) {
    return memory_.bytes().subspan(n % kAhead * stride_, index_.padded_record_bytes());
  }

  const IoWay way_;
  const FlatIndex& index_;
  const std::span<const RecordPlace> records_;
  const uint64_t stride_;
  PageMemory memory_;
  std::unique_ptr<BlockDevice> device_;
  std::unique_ptr<ReadQueue> queue_;  // Destroyed before its device and the memory.
  size_t num_submitted_ = 0;
  bool ready_[kAhead] = {};
};

}  // namespace

Result<uint64_t> CheckRecordsInEveryWay(const Path& store, const Path& model_folder,
                                        std::span<const IoWay> ways,
                                        const std::atomic<bool>& stop) {
  PICCHIO_ASSIGN_OR_RETURN(const FlatIndex index, InspectStore(store));
  PICCHIO_ASSIGN_OR_RETURN(const ModelFolder model, OpenModelFolder(model_folder));
  PICCHIO_RETURN_IF_ERROR(
      CheckFlatModel(index, FlatModelOf(model), /*trust_unlisted=*/true, PathText(store)));
  PICCHIO_ASSIGN_OR_RETURN(const ModelRecords of_model, ModelRecords::Open(model, index.layout()));
  const std::vector<RecordPlace> records = RecordsOf(index);
  std::vector<std::unique_ptr<Reader>> readers;
  for (const IoWay way : ways) {
    PICCHIO_ASSIGN_OR_RETURN(auto reader, Reader::Open(store, way, index, records));
    readers.push_back(std::move(reader));
  }
  PICCHIO_ASSIGN_OR_RETURN(AlignedBuffer expected,
                           AlignedBuffer::Allocate(index.padded_record_bytes(), kMinFlatBlock));
  std::ranges::fill(expected.bytes(), std::byte{0});  // The padding stays so.
  Progress progress("checking", records.size() * index.padded_record_bytes());
  for (size_t n = 0; n < records.size(); ++n) {
    if (stop.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "stopped");
    const RecordPlace place = records[n];
    PICCHIO_RETURN_IF_ERROR(of_model.Read(place, expected.bytes()));
    for (const auto& reader : readers) {
      PICCHIO_ASSIGN_OR_RETURN(const std::span<const std::byte> stored, reader->Get(n));
      const Status same = of_model.Compare(index, place, stored, expected.bytes());
      if (!same.ok()) return same.WithContext("read by " + std::string(IoWayName(reader->way())));
    }
    progress.Add(index.padded_record_bytes());
  }
  return records.size();
}

}  // namespace picchio
