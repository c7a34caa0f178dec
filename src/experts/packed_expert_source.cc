#include "experts/packed_expert_source.h"

#include <algorithm>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/units.h"
#include "experts/record_hashes.h"

namespace picchio {
namespace {

// Records at once: several layers' demands.
constexpr size_t kMaxRecordReads = 256;

// Fills `out` from byte `offset`, waiting.
Status ReadNow(ReadQueue& queue, uint64_t offset, std::span<std::byte> out) {
  const DeviceRead read{.offset = offset, .out = out};
  if (queue.Submit({&read, 1}) != 1) return {Code::kUnavailable, "the device takes no reads"};
  DeviceCompletion completion;
  if (queue.Reap({&completion, 1}, kForever) != 1) {
    return {Code::kUnavailable, "the device lost a read"};
  }
  return completion.status;
}

Status CheckDeviceAlignment(const BlockDevice& device, uint64_t block_size) {
  const uint64_t alignment = device.alignment();
  if (alignment <= block_size && block_size % alignment == 0) return Status::Ok();
  return Error(Code::kUnsupported,
               "{} reads at multiples of {} bytes, the store has blocks of {}: run picchio pack "
               "with --block-size {}",
               device.name(), alignment, block_size, alignment);
}

}  // namespace

Result<FlatIndex> ReadFlatIndex(BlockDevice& device) {
  PICCHIO_RETURN_IF_ERROR(CheckDeviceAlignment(device, kMaxFlatBlock));
  const uint64_t file_bytes = device.file_bytes(0);
  const uint64_t first_bytes = std::max<uint64_t>(kFlatSuperblockBytes, device.alignment());
  if (file_bytes < first_bytes) {
    return Error(Code::kCorrupt, "{} has {} bytes; an expert store begins with {}", device.name(),
                 file_bytes, first_bytes);
  }
  PICCHIO_ASSIGN_OR_RETURN(const std::unique_ptr<ReadQueue> queue, device.OpenQueue());
  const uint64_t alignment = std::max<uint64_t>(kFlatSuperblockBytes, device.alignment());
  PICCHIO_ASSIGN_OR_RETURN(AlignedBuffer first, AlignedBuffer::Allocate(first_bytes, alignment));
  PICCHIO_RETURN_IF_ERROR(ReadNow(*queue, 0, first.bytes()));
  PICCHIO_ASSIGN_OR_RETURN(const FlatSuperblock superblock,
                           ParseFlatSuperblock(first.bytes(), device.name()));
  PICCHIO_RETURN_IF_ERROR(CheckDeviceAlignment(device, superblock.block_size));
  const uint64_t head_bytes = superblock.data_offset();
  if (head_bytes > file_bytes) {
    return Error(Code::kCorrupt, "{} has {} bytes and ends inside its index, which ends at byte {}",
                 device.name(), file_bytes, head_bytes);
  }
  PICCHIO_ASSIGN_OR_RETURN(AlignedBuffer head, AlignedBuffer::Allocate(head_bytes, alignment));
  PICCHIO_RETURN_IF_ERROR(ReadNow(*queue, 0, head.bytes()));
  PICCHIO_ASSIGN_OR_RETURN(FlatIndex index, FlatIndex::Parse(head.bytes(), device.name()));
  PICCHIO_RETURN_IF_ERROR(index.CheckStoreBytes(file_bytes, device.name()));
  return index;
}

Result<std::unique_ptr<PackedExpertSource>> PackedExpertSource::Open(
    std::unique_ptr<BlockDevice> device, FlatIndex index, const Options& options) {
  PICCHIO_RETURN_IF_ERROR(CheckDeviceAlignment(*device, index.superblock().block_size));
  PICCHIO_RETURN_IF_ERROR(index.CheckStoreBytes(device->file_bytes(0), device->name()));
  PICCHIO_ASSIGN_OR_RETURN(auto queue, device->OpenQueue());
  return std::unique_ptr<PackedExpertSource>(
      new PackedExpertSource(std::move(device), std::move(queue), std::move(index), options));
}

PackedExpertSource::PackedExpertSource(std::unique_ptr<BlockDevice> device,
                                       std::unique_ptr<ReadQueue> queue, FlatIndex index,
                                       const Options& options)
    : device_(std::move(device)),
      queue_(std::move(queue)),
      index_(std::move(index)),
      options_(options),
      name_(device_->name()),
      reads_(std::clamp<size_t>(queue_->max_in_flight(), 1, kMaxRecordReads)),
      device_done_(reads_.size()) {
  for (size_t i = 0; i < reads_.size(); ++i) free_reads_.push_back(i);
  batch_.reserve(reads_.size());
}

Status PackedExpertSource::Attach(const MemoryChunk& chunk) {
  return queue_->Attach({chunk.data, static_cast<size_t>(chunk.bytes)});
}

void PackedExpertSource::Detach(const MemoryChunk& chunk) {
  queue_->Detach({chunk.data, static_cast<size_t>(chunk.bytes)});
}

size_t PackedExpertSource::Submit(std::span<const ReadRequest> requests) {
  const size_t room = std::min(requests.size(), free_reads_.size() - missing_.size());
  batch_.clear();
  for (const ReadRequest& request : requests.first(room)) {
    PICCHIO_CHECK(request.slot.data != nullptr && request.slot.bytes >= slot_bytes());
    const FlatEntry* entry = index_.Find(request.key.layer, request.key.expert);
    if (entry == nullptr) continue;
    const size_t read_idx = free_reads_[free_reads_.size() - 1 - batch_.size()];
    reads_[read_idx].request = request;
    batch_.push_back({.offset = entry->offset,
                      .out = {request.slot.data, entry->padded_bytes},
                      .tag = read_idx,
                      .priority = request.priority});
  }
  const size_t taken = batch_.empty() ? 0 : queue_->Submit(batch_);
  // What stands before the first read that the queue had no room for.
  size_t accepted = 0;
  size_t read = 0;
  for (; accepted < room; ++accepted) {
    const ReadRequest& request = requests[accepted];
    const FlatEntry* entry = index_.Find(request.key.layer, request.key.expert);
    if (entry == nullptr) {
      missing_.push_back(request);
    } else if (read < taken) {
      reads_[batch_[read].tag].entry = entry;
      ++read;
    } else {
      break;
    }
  }
  free_reads_.resize(free_reads_.size() - taken);
  return accepted;
}

size_t PackedExpertSource::Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) {
  size_t count = 0;
  for (; count < out.size() && !missing_.empty(); ++count) {
    const ReadRequest& request = missing_.front();
    out[count] = {
        .tag = request.tag,
        .status = Error(Code::kNotFound, "{}: no such expert in {}", ToString(request.key), name_)};
    missing_.pop_front();
  }
  if (count == out.size()) return count;
  const size_t done =
      queue_->Reap(std::span(device_done_).first(std::min(out.size() - count, device_done_.size())),
                   count > 0 ? std::chrono::nanoseconds(0) : timeout);
  for (size_t i = 0; i < done; ++i) out[count++] = Finish(device_done_[i]);
  return count;
}

Completion PackedExpertSource::Finish(const DeviceCompletion& completion) {
  const size_t read_idx = completion.tag;
  Read& read = reads_[read_idx];
  const FlatEntry& entry = *std::exchange(read.entry, nullptr);
  free_reads_.push_back(read_idx);
  Completion done{.tag = read.request.tag, .status = completion.status};
  if (done.status.ok()) done.status = CheckRecord(entry, {read.request.slot.data, entry.bytes});
  if (!done.status.ok()) done.status = done.status.WithContext(ToString(read.request.key));
  return done;
}

Status PackedExpertSource::CheckRecord(const FlatEntry& entry,
                                       std::span<const std::byte> record) const {
  return CheckRecordHashes(entry, index_.superblock().version, options_.verify_sha256, record,
                           [&] { return fmt::format("at byte {} of {}", entry.offset, name_); });
}

std::optional<size_t> PackedExpertSource::FindRead(uint64_t tag) const {
  for (size_t i = 0; i < reads_.size(); ++i) {
    if (reads_[i].entry != nullptr && reads_[i].request.tag == tag) return i;
  }
  return std::nullopt;
}

void PackedExpertSource::Cancel(uint64_t tag) {
  if (const std::optional<size_t> read_idx = FindRead(tag)) queue_->Cancel(*read_idx);
}

void PackedExpertSource::Promote(uint64_t tag) {
  if (const std::optional<size_t> read_idx = FindRead(tag)) queue_->Promote(*read_idx);
}

void PackedExpertSource::Drain() {
  queue_->Drain();
  missing_.clear();
  free_reads_.clear();
  for (size_t i = 0; i < reads_.size(); ++i) {
    reads_[i].entry = nullptr;
    free_reads_.push_back(i);
  }
}

}  // namespace picchio
