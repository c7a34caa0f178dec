// Experts out of an aligned store (format/flat_index.h, docs/format.md): one read for each, at a
// place that is known without asking anybody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experts/expert_source.h"
#include "format/flat_index.h"
#include "io/block_device.h"

namespace picchio {

// Superblock and index of the store that is file 0 of the device, whose size must be the store's.
// Reads through the device, so that what is checked is what records will be read from, even where
// the file's name is given to another one meanwhile. Fails as FlatIndex::Parse does, or with
// kUnsupported where the device cannot read at the store's blocks.
Result<FlatIndex> ReadFlatIndex(BlockDevice& device);

// A record is one read of its extent with its padding, straight into the slot. A record that
// contradicts its hash completes with kCorrupt: version 3 has a CRC-32C that is checked always, and
// either version the SHA-256 (of which version 2 keeps 8 bytes), checked on request.
// Hashes are computed within Reap. Owner thread only.
class PackedExpertSource final : public ExpertSource {
 public:
  struct Options {
    bool verify_sha256 = false;
  };

  // `index` is what ReadFlatIndex found on the device.
  static Result<std::unique_ptr<PackedExpertSource>> Open(std::unique_ptr<BlockDevice> device,
                                                          FlatIndex index, const Options& options);

  const FlatIndex& index() const { return index_; }

  const std::string& name() const override { return name_; }
  const ExpertRecordLayout& layout() const override { return index_.layout(); }
  uint64_t slot_bytes() const override { return index_.padded_record_bytes(); }
  size_t max_in_flight() const override { return reads_.size(); }
  Status Attach(const MemoryChunk& chunk) override;
  void Detach(const MemoryChunk& chunk) override;
  size_t Submit(std::span<const ReadRequest> requests) override;
  size_t Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) override;
  void Cancel(uint64_t tag) override;
  void Promote(uint64_t tag) override;
  void Drain() override;

 private:
  // Its position in reads_ is its tag at the device.
  struct Read {
    ReadRequest request;
    const FlatEntry* entry = nullptr;  // Null while unused.
  };

  PackedExpertSource(std::unique_ptr<BlockDevice> device, std::unique_ptr<ReadQueue> queue,
                     FlatIndex index, const Options& options);

  Completion Finish(const DeviceCompletion& completion);
  Status CheckRecord(const FlatEntry& entry, std::span<const std::byte> record) const;
  std::optional<size_t> FindRead(uint64_t tag) const;

  const std::unique_ptr<BlockDevice> device_;
  const std::unique_ptr<ReadQueue> queue_;  // Destroyed before its device.
  const FlatIndex index_;
  const Options options_;
  const std::string name_;

  std::vector<Read> reads_;
  std::vector<size_t> free_reads_;             // Indexes into reads_.
  std::deque<ReadRequest> missing_;            // Taken, not in the store, not reaped.
  std::vector<DeviceRead> batch_;              // Room for Submit,
  std::vector<DeviceCompletion> device_done_;  // and for Reap.
};

}  // namespace picchio
