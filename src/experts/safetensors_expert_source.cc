#include "experts/safetensors_expert_source.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/printable.h"
#include "experts/record_hashes.h"
#include "format/expert_container.h"

namespace picchio {
namespace {

// Gate/up and down with their scales, two biases.
constexpr uint64_t kMaxParts = 6;
// Records at once. Their parts keep any queue full, and a layer's demands fit.
constexpr size_t kMaxTensorReads = 64;

Status CheckTensor(const TensorDirectory& directory, const TensorEntry& tensor,
                   const ExpertTensor& expected) {
  if (tensor.dtype == expected.dtype && tensor.shape == expected.shape) return Status::Ok();
  return Error(Code::kCorrupt, "tensor {} of {} is {} {}, expected {} {}: convert the model again",
               Quoted(tensor.name), Quoted(directory.file_name(tensor.file_idx)),
               DtypeName(tensor.dtype), ShapeText(tensor.shape), DtypeName(expected.dtype),
               ShapeText(expected.shape));
}

// Widens `count` BF16 that lie in the upper half of the `count` F32 that they become,
// little-endian. Going up is safe: value i is written to bytes [4i, 4i + 4), below what is still to
// be read, which begins at 2 * count + 2 * (i + 1).
void WidenInPlace(std::byte* values, size_t count) {
  const std::byte* bf16 = values + 2 * count;
  for (size_t i = 0; i < count; ++i) {
    const std::byte low = bf16[2 * i];
    const std::byte high = bf16[2 * i + 1];
    values[4 * i] = values[4 * i + 1] = std::byte{0};
    values[4 * i + 2] = low;
    values[4 * i + 3] = high;
  }
}

}  // namespace

Result<std::unique_ptr<SafetensorsExpertSource>> SafetensorsExpertSource::Open(
    const TensorDirectory& directory, std::unique_ptr<BlockDevice> device,
    const ExpertRecordLayout& layout, std::span<const int> moe_layers, int num_experts) {
  if (device->alignment() != 1) {
    return Error(Code::kUnsupported,
                 "{} reads at multiples of {} bytes only; a safetensors container needs any byte",
                 device->name(), device->alignment());
  }
  if (device->num_files() != directory.num_files()) {
    return Error(Code::kInvalidArgument, "{} has {} files, the model's directory {}",
                 device->name(), device->num_files(), directory.num_files());
  }
  for (size_t i = 0; i < directory.num_files(); ++i) {
    if (device->file_bytes(i) == directory.file_bytes(i)) continue;
    return Error(Code::kCorrupt, "{} changed while it was opened: it had {} bytes and has {}",
                 Quoted(directory.file_name(i)), directory.file_bytes(i), device->file_bytes(i));
  }
  PICCHIO_ASSIGN_OR_RETURN(auto queue, device->OpenQueue());
  std::unique_ptr<SafetensorsExpertSource> source(
      new SafetensorsExpertSource(std::move(device), std::move(queue), layout));
  for (const int layer : moe_layers) {
    std::vector<const TensorEntry*> biases;
    for (ExpertTensor expected : ExpertBiasTensors(layout, layer, num_experts)) {
      PICCHIO_ASSIGN_OR_RETURN(const TensorEntry* tensor, directory.Get(expected.name));
      if (tensor->dtype == Dtype::kF32) expected.dtype = Dtype::kF32;
      PICCHIO_RETURN_IF_ERROR(CheckTensor(directory, *tensor, expected));
      biases.push_back(tensor);
    }
    for (int expert = 0; expert < num_experts; ++expert) {
      PICCHIO_RETURN_IF_ERROR(source->AddExpert(directory, {layer, expert}, biases));
    }
  }
  source->FindPadding();
  source->reads_.resize(std::clamp<size_t>(source->queue_->max_in_flight(), 1, kMaxTensorReads));
  for (size_t i = 0; i < source->reads_.size(); ++i) source->free_reads_.push_back(i);
  return source;
}

Status SafetensorsExpertSource::AddExpert(const TensorDirectory& directory, ExpertKey key,
                                          std::span<const TensorEntry* const> biases) {
  ExtentRange range{.first = static_cast<uint32_t>(extents_.size())};
  for (const ExpertTensor& expected : ExpertTensors(layout_, key.layer, key.expert)) {
    PICCHIO_ASSIGN_OR_RETURN(const TensorEntry* tensor, directory.Get(expected.name));
    PICCHIO_RETURN_IF_ERROR(CheckTensor(directory, *tensor, expected));
    AddExtent({.file_idx = static_cast<uint32_t>(tensor->file_idx),
               .file_offset = tensor->offset,
               .record_offset = expected.part.offset,
               .bytes = tensor->bytes},
              range);
  }
  for (size_t i = 0; i < biases.size(); ++i) {
    // A row of F32 fills its part; one of BF16 goes into the upper half.
    const RecordPart& part = i == 0 ? layout_.gate_up_bias : layout_.down_bias;
    range.widen_biases[i] = biases[i]->dtype == Dtype::kBf16;
    const uint64_t row_bytes = range.widen_biases[i] ? part.bytes / 2 : part.bytes;
    AddExtent({.file_idx = static_cast<uint32_t>(biases[i]->file_idx),
               .file_offset = biases[i]->offset + static_cast<uint64_t>(key.expert) * row_bytes,
               .record_offset = part.offset + part.bytes - row_bytes,
               .bytes = row_bytes},
              range);
  }
  experts_.emplace(key, range);
  return Status::Ok();
}

void SafetensorsExpertSource::AddExtent(const Extent& extent, ExtentRange& range) {
  if (range.count > 0) {
    Extent& last = extents_.back();
    if (last.file_idx == extent.file_idx && last.file_offset + last.bytes == extent.file_offset &&
        last.record_offset + last.bytes == extent.record_offset) {
      last.bytes += extent.bytes;
      return;
    }
  }
  extents_.push_back(extent);
  ++range.count;
}

void SafetensorsExpertSource::FindPadding() {
  uint64_t end = 0;
  for (const RecordPart* part : {&layout_.gate_up, &layout_.gate_up_scales, &layout_.down,
                                 &layout_.down_scales, &layout_.gate_up_bias, &layout_.down_bias}) {
    if (part->bytes == 0) continue;
    if (part->offset > end) padding_.push_back({.offset = end, .bytes = part->offset - end});
    end = part->offset + part->bytes;
  }
}

Status SafetensorsExpertSource::Attach(const MemoryChunk& chunk) {
  return queue_->Attach({chunk.data, static_cast<size_t>(chunk.bytes)});
}

void SafetensorsExpertSource::Detach(const MemoryChunk& chunk) {
  queue_->Detach({chunk.data, static_cast<size_t>(chunk.bytes)});
}

size_t SafetensorsExpertSource::Submit(std::span<const ReadRequest> requests) {
  const size_t accepted = std::min(requests.size(), free_reads_.size());
  for (const ReadRequest& request : requests.first(accepted)) {
    PICCHIO_CHECK(request.slot.data != nullptr && request.slot.bytes >= slot_bytes());
    const size_t read_idx = free_reads_.back();
    free_reads_.pop_back();
    Read& read = reads_[read_idx];
    read = {.request = request};
    const auto found = experts_.find(request.key);
    if (found == experts_.end()) {
      read.failure = Error(Code::kNotFound, "no such expert in {}", name_);
      finished_.push_back(read_idx);
      continue;
    }
    const ExtentRange range = found->second;
    read.parts_left = range.count;
    for (uint32_t i = 0; i < range.count; ++i) {
      const Extent& extent = extents_[range.first + i];
      unsubmitted_.push_back(
          {.file_idx = extent.file_idx,
           .offset = extent.file_offset,
           .out = {request.slot.data + extent.record_offset, static_cast<size_t>(extent.bytes)},
           .tag = read_idx * kMaxParts + i,
           .priority = request.priority});
    }
  }
  SubmitParts();
  return accepted;
}

size_t SafetensorsExpertSource::Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) {
  if (out.empty()) return 0;
  const Deadline deadline(timeout);
  DeviceCompletion batch[32];
  // What has completed at the device is taken even where records are waiting to be reaped: the room
  // it leaves there is wanted by the next parts.
  size_t parts = queue_->Reap(batch, std::chrono::nanoseconds(0));
  for (;;) {
    for (const DeviceCompletion& completion : std::span(batch).first(parts)) {
      CompletePart(completion);
    }
    SubmitParts();
    const bool idle = free_reads_.size() == reads_.size();
    if (!finished_.empty() || idle) break;
    parts = queue_->Reap(batch, deadline.left());
    if (parts == 0 && deadline.passed()) break;
  }
  size_t count = 0;
  for (; count < out.size() && !finished_.empty(); ++count) {
    const size_t read_idx = finished_.front();
    finished_.pop_front();
    free_reads_.push_back(read_idx);
    Read& read = reads_[read_idx];
    out[count] = {.tag = read.request.tag};
    if (read.failure.ok()) {
      FinishRecord(read.request);
      read.failure = CheckRecord(read.request);
    }
    if (!read.failure.ok()) {
      out[count].status = read.failure.WithContext(ToString(read.request.key));
    }
  }
  return count;
}

void SafetensorsExpertSource::SubmitParts() {
  if (unsubmitted_.empty()) return;
  const size_t accepted = queue_->Submit(unsubmitted_);
  unsubmitted_.erase(unsubmitted_.begin(), unsubmitted_.begin() + static_cast<ptrdiff_t>(accepted));
}

void SafetensorsExpertSource::CompletePart(const DeviceCompletion& completion) {
  const size_t read_idx = completion.tag / kMaxParts;
  Read& read = reads_[read_idx];
  if (!completion.status.ok() && read.failure.ok()) {
    read.failure = completion.status;
    CancelParts(read_idx);  // They are of no use without this one.
  }
  if (--read.parts_left == 0) finished_.push_back(read_idx);
}

void SafetensorsExpertSource::CancelParts(size_t read_idx) {
  const uint64_t first_tag = read_idx * kMaxParts;
  const size_t left = std::erase_if(unsubmitted_, [first_tag](const DeviceRead& part) {
    return part.tag - first_tag < kMaxParts;
  });
  Read& read = reads_[read_idx];
  read.parts_left -= static_cast<uint32_t>(left);
  // The device may complete all others with OK, and the record would have a hole.
  if (left > 0 && read.failure.ok()) read.failure = {Code::kCancelled, "the read was cancelled"};
  for (uint64_t i = 0; i < kMaxParts; ++i) queue_->Cancel(first_tag + i);
}

// What no part of the container holds: padding, and biases at their full width.
void SafetensorsExpertSource::FinishRecord(const ReadRequest& request) const {
  std::byte* record = request.slot.data;
  for (const RecordPart& gap : padding_) std::memset(record + gap.offset, 0, gap.bytes);
  const ExtentRange& range = experts_.at(request.key);
  const RecordPart* const biases[] = {&layout_.gate_up_bias, &layout_.down_bias};
  for (size_t i = 0; i < std::size(biases); ++i) {
    if (!range.widen_biases[i]) continue;
    WidenInPlace(record + biases[i]->offset, biases[i]->bytes / sizeof(float));
  }
}

void SafetensorsExpertSource::VerifyBy(FlatIndex index, bool verify_sha256) {
  index_ = std::move(index);
  verify_sha256_ = verify_sha256;
}

Status SafetensorsExpertSource::CheckRecord(const ReadRequest& request) const {
  if (!index_.has_value()) return Status::Ok();
  const FlatEntry* entry = index_->Find(request.key.layer, request.key.expert);
  if (entry == nullptr) return Status::Ok();
  return CheckRecordHashes(*entry, index_->superblock().version, verify_sha256_,
                           {request.slot.data, static_cast<size_t>(layout_.record_bytes)},
                           [this] { return "joined from " + name_; });
}

void SafetensorsExpertSource::Cancel(uint64_t tag) {
  const std::optional<size_t> read_idx = FindUnfinished(tag);
  if (!read_idx) return;
  CancelParts(*read_idx);
  // What the device has of it completes there, cancelled or not.
  if (reads_[*read_idx].parts_left == 0) finished_.push_back(*read_idx);
}

void SafetensorsExpertSource::Promote(uint64_t tag) {
  const std::optional<size_t> read_idx = FindUnfinished(tag);
  if (!read_idx) return;
  const uint64_t first_tag = *read_idx * kMaxParts;
  for (DeviceRead& part : unsubmitted_) {
    if (part.tag - first_tag < kMaxParts) part.priority = ReadPriority::kDemand;
  }
  for (uint64_t i = 0; i < kMaxParts; ++i) queue_->Promote(first_tag + i);
}

std::optional<size_t> SafetensorsExpertSource::FindUnfinished(uint64_t tag) const {
  for (size_t i = 0; i < reads_.size(); ++i) {
    if (reads_[i].parts_left > 0 && reads_[i].request.tag == tag) return i;
  }
  return std::nullopt;
}

void SafetensorsExpertSource::Drain() {
  unsubmitted_.clear();
  queue_->Drain();
  finished_.clear();
  free_reads_.clear();
  for (size_t i = 0; i < reads_.size(); ++i) {
    reads_[i].parts_left = 0;
    free_reads_.push_back(i);
  }
}

}  // namespace picchio
