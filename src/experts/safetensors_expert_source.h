// Experts out of the safetensors container (format/expert_container.h): the tier that every
// converted model can have, and the fallback of the faster ones.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "experts/expert_source.h"
#include "format/flat_index.h"
#include "format/tensor_directory.h"
#include "io/block_device.h"

namespace picchio {

// Joins an expert's tensors into its record: each is read straight into its part of the slot, those
// that follow each other in file and record in one read. Biases, which the container keeps for
// all experts of a layer together, are read as rows; those of BF16 are widened where they lie.
// Padding between parts is zeroed. Where there is a store's index, joined records are held against
// its hashes within Reap. Owner thread only.
class SafetensorsExpertSource final : public ExpertSource {
 public:
  // `device` has the directory's files, in the same order; the directory is only needed here.
  // `moe_layers` are the layers that have experts, each `num_experts` of them.
  // Every tensor of every one of them is checked: kNotFound where one is missing, kCorrupt where
  // its dtype or shape is another than the layout asks for, always by name. kUnsupported where the
  // device cannot read at any byte.
  static Result<std::unique_ptr<SafetensorsExpertSource>> Open(const TensorDirectory& directory,
                                                               std::unique_ptr<BlockDevice> device,
                                                               const ExpertRecordLayout& layout,
                                                               std::span<const int> moe_layers,
                                                               int num_experts);

  // The container knows no hashes of records, a store of the same model does: from now on a record
  // that contradicts its entry in `index`, as `verify_sha256` says (record_hashes.h), completes
  // with kCorrupt. Records that the index has not are not checked.
  void VerifyBy(FlatIndex index, bool verify_sha256);

  const std::string& name() const override { return name_; }
  const ExpertRecordLayout& layout() const override { return layout_; }
  size_t max_in_flight() const override { return reads_.size(); }
  Status Attach(const MemoryChunk& chunk) override;
  void Detach(const MemoryChunk& chunk) override;
  size_t Submit(std::span<const ReadRequest> requests) override;
  size_t Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) override;
  void Cancel(uint64_t tag) override;
  void Promote(uint64_t tag) override;
  void Drain() override;

 private:
  // Bytes that follow each other in a file and in the record.
  struct Extent {
    uint32_t file_idx = 0;
    uint64_t file_offset = 0;
    uint64_t record_offset = 0;
    uint64_t bytes = 0;
  };

  // Extents of one expert: its range of extents_.
  struct ExtentRange {
    uint32_t first = 0;
    uint32_t count = 0;
    std::array<bool, 2> widen_biases{};  // gate_up's and down's: read as BF16.
  };

  // A record in flight. Its index and the number of the extent make the tag at the device.
  struct Read {
    ReadRequest request{};
    uint32_t parts_left = 0;  // Extents that have not completed; 0 where finished or free.
    Status failure{};         // Of the first part that failed.
  };

  SafetensorsExpertSource(std::unique_ptr<BlockDevice> device, std::unique_ptr<ReadQueue> queue,
                          const ExpertRecordLayout& layout)
      : device_(std::move(device)),
        queue_(std::move(queue)),
        name_(device_->name()),
        layout_(layout) {}

  // Finds the expert's tensors and notes where they lie.
  Status AddExpert(const TensorDirectory& directory, ExpertKey key,
                   std::span<const TensorEntry* const> biases);
  void AddExtent(const Extent& extent, ExtentRange& range);
  void FindPadding();

  void SubmitParts();
  void CompletePart(const DeviceCompletion& completion);
  void CancelParts(size_t read_idx);
  void FinishRecord(const ReadRequest& request) const;
  Status CheckRecord(const ReadRequest& request) const;
  std::optional<size_t> FindUnfinished(uint64_t tag) const;

  const std::unique_ptr<BlockDevice> device_;
  const std::unique_ptr<ReadQueue> queue_;  // Destroyed before its device.
  const std::string name_;
  const ExpertRecordLayout layout_;
  std::vector<Extent> extents_;
  std::unordered_map<ExpertKey, ExtentRange> experts_;
  std::vector<RecordPart> padding_;
  std::optional<FlatIndex> index_;  // To verify by.
  bool verify_sha256_ = false;

  std::vector<Read> reads_;
  std::vector<size_t> free_reads_;       // Indexes into reads_.
  std::deque<size_t> finished_;          // Likewise: all parts have completed, not reaped.
  std::vector<DeviceRead> unsubmitted_;  // The queue had no room yet.
};

}  // namespace picchio
