// The first block of an aligned expert store (.picchioflat, docs/format.md): which model's experts
// it holds, in which form, and where its index lies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/status.h"
#include "base/units.h"
#include "format/expert_record.h"
#include "format/manifest.h"

namespace picchio {

// As a model's folder calls its store.
inline constexpr std::string_view kFlatStoreName = "experts.picchioflat";

// Every store's first bytes.
inline constexpr std::string_view kFlatMagic = "PCHIOFL1";

inline constexpr uint32_t kMinFlatBlock = 4_KiB;  // Also the default.
inline constexpr uint32_t kMaxFlatBlock = 1_MiB;
// The part of the first block that has fields, whatever the block size.
inline constexpr size_t kFlatSuperblockBytes = 4096;
// Those of ModelConfig. They bound the index, and so what a reader allocates, to 256 MiB.
inline constexpr uint32_t kMaxFlatLayers = 1024;
inline constexpr uint32_t kMaxFlatExperts = 4096;

// Of the members of a striped or mirrored set.
enum class FlatRole : uint32_t { kSingle = 0, kStripe = 1, kMirror = 2 };

struct FlatSuperblock {
  RecordVersion version = RecordVersion::kV2;
  uint32_t block_size = kMinFlatBlock;
  uint32_t hidden_size = 0;
  uint32_t num_layers = 0;  // num_hidden_layers: dense layers counted.
  uint32_t num_experts = 0;
  uint32_t experts_per_token = 0;
  uint32_t intermediate_size = 0;  // moe_intermediate_size, of one expert.
  uint32_t num_entries = 0;        // Experts that the store holds.
  Sha256Digest index_sha256;

  // Of version 3 only; version 2 holds INT4 without biases.
  PayloadKind kind = PayloadKind::kInt4;
  bool has_biases = false;
  uint64_t dense_offset = 0;  // Of the safetensors image behind the last record, 0: none.
  uint64_t dense_bytes = 0;
  ModelId model_id;
  uint64_t store_bytes = 0;  // Version 2 has no such field: set when its index is read.
  uint32_t member = 0;       // Below `members`.
  uint32_t members = 1;
  FlatRole role = FlatRole::kSingle;
  std::array<uint8_t, 16> set_id{};  // Zeros for a single store.
  Sha256Digest dense_sha256;
  uint32_t weight = 0;  // MB/s measured when it was packed, 0: not measured. Informational.

  bool operator==(const FlatSuperblock&) const = default;

  uint64_t entry_bytes() const { return version == RecordVersion::kV2 ? 24 : 64; }
  uint64_t num_places() const { return uint64_t{num_layers} * num_experts; }
  uint64_t index_offset() const { return block_size; }
  uint64_t index_bytes() const { return num_places() * entry_bytes(); }
  uint64_t data_offset() const { return index_offset() + RoundUp(index_bytes(), block_size); }
};

// Fails with kInvalidArgument where a field is beyond what the format has.
Status CheckFlatSuperblock(const FlatSuperblock& superblock);

// A field that follows from others: kCorrupt with both values unless it is as expected.
Status CheckFlatField(const char* name, uint64_t found, uint64_t expected);

// The fields' bytes; the rest of the block is zero. The superblock has passed CheckFlatSuperblock.
std::array<std::byte, kFlatSuperblockBytes> SerializeFlatSuperblock(
    const FlatSuperblock& superblock);

// Reads the first kFlatSuperblockBytes bytes of a store that messages call `where`. Every message
// names the field. Fails with kUnsupported where a version, kind, flag or role is unknown; with
// kCorrupt where it is no store, a field contradicts another or is out of its range, reserved bytes
// are not zero, or version 3's CRC-32C is wrong.
Result<FlatSuperblock> ParseFlatSuperblock(std::span<const std::byte> bytes,
                                           std::string_view where);

}  // namespace picchio
