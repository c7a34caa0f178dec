// The index of an aligned expert store: where each expert's record lies and what its hashes are.
// Writer and reader share one rule of placement, FlatIndex::Place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "format/expert_record.h"
#include "format/flat_superblock.h"

namespace picchio {

struct FlatEntry {
  uint64_t offset = 0;        // Of the record in the store; a multiple of the block size.
  uint32_t bytes = 0;         // Of the record. 0: the store does not hold this expert.
  uint32_t padded_bytes = 0;  // To the next block: what is read.
  uint32_t crc32c = 0;        // Of the record; version 3 only.
  Sha256Digest sha256{};      // Of the record; in version 2 only the first 8 bytes, then zeros.

  bool present() const { return bytes > 0; }
};

// A superblock and its entries. Const functions may be called from any thread, SetHashes for
// distinct experts too.
class FlatIndex {
 public:
  // The canonical places of the records of the experts with present[layer * num_experts + expert],
  // and behind them of `dense_bytes` bytes of a dense image (0: none, version 3 only): in index
  // order, each on the next block, without gaps. `facts` has everything but num_entries,
  // dense_offset, dense_bytes and store_bytes, which are set here. Hashes are zero still. Fails
  // with kInvalidArgument or kUnsupported where the facts are no store's, or a record has more than
  // 2^32 - 1 bytes with its padding.
  static Result<FlatIndex> Place(const FlatSuperblock& facts, const std::vector<bool>& present,
                                 uint64_t dense_bytes = 0);

  // Reads bytes [0, data_offset) of a store that messages call `where`: superblock, index and all
  // the padding between them. Checks all that can be known without the records; in particular that
  // they lie where Place would put them. Codes as ParseFlatSuperblock.
  static Result<FlatIndex> Parse(std::span<const std::byte> head, std::string_view where);

  // The same, of a file, whose size must be the store's.
  static Result<FlatIndex> Read(const RandomAccessFile& file);

  const FlatSuperblock& superblock() const { return superblock_; }
  const ExpertRecordLayout& layout() const { return layout_; }
  uint64_t store_bytes() const { return superblock_.store_bytes; }
  uint64_t padded_record_bytes() const { return padded_record_bytes_; }

  // Null where the store does not hold that expert, whatever the numbers. O(1).
  const FlatEntry* Find(int64_t layer, int64_t expert) const;

  // Fails unless a store of `found_bytes` bytes is whole; `where` is what messages call it.
  Status CheckStoreBytes(uint64_t found_bytes, std::string_view where) const;

  // The hashes of a present expert's record. Version 2 keeps the first 8 bytes of the SHA-256.
  void SetHashes(int64_t layer, int64_t expert, uint32_t crc32c, const Sha256Digest& sha256);
  // Known only when all tensors are, which is after the places.
  void SetModelId(const ModelId& model_id) { superblock_.model_id = model_id; }
  void SetDenseHash(const Sha256Digest& sha256) { superblock_.dense_sha256 = sha256; }

  // Bytes [0, data_offset) of the store. Sets superblock().index_sha256.
  std::vector<std::byte> SerializeHead();

 private:
  FlatIndex(const FlatSuperblock& superblock, const ExpertRecordLayout& layout);

  Status ParseEntries(std::span<const std::byte> index, std::string_view where);

  FlatSuperblock superblock_;
  ExpertRecordLayout layout_;
  uint64_t padded_record_bytes_ = 0;
  std::vector<FlatEntry> entries_;  // [num_layers * num_experts]
};

// Whether `record_sha256` is what the entry says, as far as its version keeps it.
bool MatchesSha256(const FlatEntry& entry, RecordVersion version,
                   const Sha256Digest& record_sha256);

}  // namespace picchio
