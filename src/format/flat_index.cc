#include "format/flat_index.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/foreign_content.h"
#include "base/little_endian.h"

namespace picchio {
namespace {

constexpr size_t kShortHash = 8;  // What version 2 keeps of a SHA-256.

// Entries of version 2: offset, len, padded_len, hash. Of version 3: offset, len, padded_len, kind,
// codec, member, 0, CRC-32C, 0, SHA-256.
struct EntryFields {
  uint64_t offset = 0;
  uint32_t bytes = 0;
  uint32_t padded_bytes = 0;
  uint16_t kind = 0;
  uint16_t codec = 0;
  uint16_t member = 0;
  uint16_t reserved_a = 0;
  uint32_t crc32c = 0;
  uint32_t reserved_b = 0;
  Sha256Digest sha256;
};

EntryFields LoadEntry(const std::byte* from, RecordVersion version) {
  EntryFields entry;
  entry.offset = LoadLittleEndian<uint64_t>(from);
  entry.bytes = LoadLittleEndian<uint32_t>(from + 8);
  entry.padded_bytes = LoadLittleEndian<uint32_t>(from + 12);
  if (version == RecordVersion::kV2) {
    std::memcpy(entry.sha256.bytes.data(), from + 16, kShortHash);
    return entry;
  }
  entry.kind = LoadLittleEndian<uint16_t>(from + 16);
  entry.codec = LoadLittleEndian<uint16_t>(from + 18);
  entry.member = LoadLittleEndian<uint16_t>(from + 20);
  entry.reserved_a = LoadLittleEndian<uint16_t>(from + 22);
  entry.crc32c = LoadLittleEndian<uint32_t>(from + 24);
  entry.reserved_b = LoadLittleEndian<uint32_t>(from + 28);
  std::memcpy(entry.sha256.bytes.data(), from + 32, entry.sha256.bytes.size());
  return entry;
}

void StoreEntry(const FlatEntry& entry, const FlatSuperblock& superblock, std::byte* to) {
  StoreLittleEndian(entry.offset, to);
  StoreLittleEndian(entry.bytes, to + 8);
  StoreLittleEndian(entry.padded_bytes, to + 12);
  if (superblock.version == RecordVersion::kV2) {
    std::memcpy(to + 16, entry.sha256.bytes.data(), kShortHash);
    return;
  }
  StoreLittleEndian(static_cast<uint16_t>(superblock.kind), to + 16);
  StoreLittleEndian(static_cast<uint16_t>(superblock.member), to + 20);
  StoreLittleEndian(entry.crc32c, to + 24);
  std::memcpy(to + 32, entry.sha256.bytes.data(), entry.sha256.bytes.size());
}

bool AllZero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// Fails unless bytes [from, to) of the store are zero.
Status CheckZero(std::span<const std::byte> head, uint64_t from, uint64_t to) {
  const auto gap = head.subspan(from, to - from);
  const auto at =
      std::find_if(gap.begin(), gap.end(), [](std::byte b) { return b != std::byte{0}; });
  if (at == gap.end()) return Status::Ok();
  return Error(Code::kCorrupt, "byte {} is {:#04x}, padding and expected 0",
               from + static_cast<uint64_t>(at - gap.begin()), static_cast<unsigned>(*at));
}

// What a present entry says beside its hashes.
Status CheckEntry(const EntryFields& found, const FlatEntry& expected,
                  const FlatSuperblock& superblock) {
  if (found.kind > static_cast<uint16_t>(PayloadKind::kBf16)) {
    return Error(Code::kUnsupported, "kind {} is unknown", found.kind);
  }
  if (found.codec != 0) {
    return Error(Code::kUnsupported, "codec {} is unknown; this program reads 0 (none)",
                 found.codec);
  }
  PICCHIO_RETURN_IF_ERROR(
      CheckFlatField("kind", found.kind, static_cast<uint16_t>(superblock.kind)));
  PICCHIO_RETURN_IF_ERROR(CheckFlatField("member", found.member, superblock.member));
  PICCHIO_RETURN_IF_ERROR(CheckFlatField("the field at byte 22", found.reserved_a, 0));
  PICCHIO_RETURN_IF_ERROR(CheckFlatField("the field at byte 28", found.reserved_b, 0));
  PICCHIO_RETURN_IF_ERROR(CheckFlatField("len", found.bytes, expected.bytes));
  PICCHIO_RETURN_IF_ERROR(CheckFlatField("padded_len", found.padded_bytes, expected.padded_bytes));
  return CheckFlatField("offset", found.offset, expected.offset);
}

}  // namespace

FlatIndex::FlatIndex(const FlatSuperblock& superblock, const ExpertRecordLayout& layout)
    : superblock_(superblock),
      layout_(layout),
      padded_record_bytes_(RoundUp(layout.record_bytes, superblock.block_size)),
      entries_(superblock.num_places()) {}

Result<FlatIndex> FlatIndex::Place(const FlatSuperblock& facts, const std::vector<bool>& present,
                                   uint64_t dense_bytes) {
  FlatSuperblock superblock = facts;
  superblock.num_entries = 0;
  superblock.dense_offset = superblock.dense_bytes = 0;
  superblock.dense_sha256 = {};
  PICCHIO_RETURN_IF_ERROR(CheckFlatSuperblock(superblock));
  if (present.size() != superblock.num_places()) {
    return Error(Code::kInvalidArgument, "{} places for {} x {} experts", present.size(),
                 superblock.num_layers, superblock.num_experts);
  }
  // Far from any wrap of what follows, whose records are less than 2^22 x 2^32 bytes.
  if (dense_bytes > 0 && (superblock.version == RecordVersion::kV2 || dense_bytes >> 60 != 0)) {
    return Error(Code::kInvalidArgument, "a store of version {} holds no dense image of {} bytes",
                 static_cast<unsigned>(superblock.version), dense_bytes);
  }
  PICCHIO_ASSIGN_OR_RETURN(
      const ExpertRecordLayout layout,
      ExpertRecordLayout::Make(superblock.kind, superblock.version, superblock.hidden_size,
                               superblock.intermediate_size, superblock.has_biases));
  FlatIndex index(superblock, layout);
  uint64_t end = superblock.data_offset();
  for (size_t i = 0; i < present.size(); ++i) {
    if (!present[i]) continue;
    index.entries_[i] = {.offset = end,
                         .bytes = static_cast<uint32_t>(layout.record_bytes),
                         .padded_bytes = static_cast<uint32_t>(index.padded_record_bytes_)};
    end += index.padded_record_bytes_;
    ++index.superblock_.num_entries;
  }
  if (dense_bytes > 0) {
    index.superblock_.dense_offset = end;
    index.superblock_.dense_bytes = dense_bytes;
    end += RoundUp(dense_bytes, superblock.block_size);
  }
  index.superblock_.store_bytes = end;
  return index;
}

Result<FlatIndex> FlatIndex::Parse(std::span<const std::byte> head, std::string_view where) {
  PICCHIO_ASSIGN_OR_RETURN(const FlatSuperblock superblock, ParseFlatSuperblock(head, where));
  if (head.size() != superblock.data_offset()) {
    return Error(Code::kCorrupt, "{} has {} bytes before its records, its superblock says {}",
                 where, head.size(), superblock.data_offset());
  }
  const uint64_t index_end = superblock.index_offset() + superblock.index_bytes();
  const auto entries = head.subspan(superblock.index_offset(), superblock.index_bytes());
  const auto check = [&]() -> Status {
    PICCHIO_RETURN_IF_ERROR(CheckZero(head, kFlatSuperblockBytes, superblock.index_offset()));
    const Sha256Digest sha256 = Sha256Of(entries);
    if (sha256 != superblock.index_sha256) {
      return Error(Code::kCorrupt, "has a damaged index: its SHA-256 is {}, expected {}",
                   sha256.Hex(), superblock.index_sha256.Hex());
    }
    return CheckZero(head, index_end, head.size());
  };
  if (Status status = check(); !status.ok()) return status.WithContext(where);

  std::vector<bool> present(superblock.num_places());
  for (size_t i = 0; i < present.size(); ++i) {
    present[i] = !AllZero(entries.subspan(i * superblock.entry_bytes(), superblock.entry_bytes()));
  }
  auto index = Place(superblock, present, superblock.dense_bytes);
  if (!index.has_value()) {
    return Status(Code::kCorrupt, index.error().message()).WithContext(where);
  }
  PICCHIO_RETURN_IF_ERROR(index->ParseEntries(entries, where));
  // Place has set what follows from the records; the superblock must have said the same.
  const FlatSuperblock& placed = index->superblock_;
  const auto check_placed = [&]() -> Status {
    PICCHIO_RETURN_IF_ERROR(
        CheckFlatField("n_entries", superblock.num_entries, placed.num_entries));
    PICCHIO_RETURN_IF_ERROR(
        CheckFlatField("dense_offset", superblock.dense_offset, placed.dense_offset));
    if (superblock.version == RecordVersion::kV2) return Status::Ok();
    return CheckFlatField("store_bytes", superblock.store_bytes, placed.store_bytes);
  };
  if (Status status = check_placed(); !status.ok()) return status.WithContext(where);
  index->superblock_.dense_sha256 = superblock.dense_sha256;
  return index;
}

Status FlatIndex::ParseEntries(std::span<const std::byte> index, std::string_view where) {
  const uint64_t entry_bytes = superblock_.entry_bytes();
  for (size_t i = 0; i < entries_.size(); ++i) {
    FlatEntry& entry = entries_[i];
    if (!entry.present()) continue;
    const EntryFields found = LoadEntry(index.data() + i * entry_bytes, superblock_.version);
    if (Status status = CheckEntry(found, entry, superblock_); !status.ok()) {
      return Error(status.code(), "{}: index entry of layer {} expert {}, at byte {}: {}", where,
                   i / superblock_.num_experts, i % superblock_.num_experts,
                   superblock_.index_offset() + i * entry_bytes, status.message());
    }
    entry.crc32c = found.crc32c;
    entry.sha256 = found.sha256;
  }
  return Status::Ok();
}

Result<FlatIndex> FlatIndex::Read(const RandomAccessFile& file) {
  PICCHIO_RETURN_IF_ERROR(CheckNotForeign(file));
  std::vector<std::byte> head(std::min<uint64_t>(file.size(), kFlatSuperblockBytes));
  PICCHIO_RETURN_IF_ERROR(file.ReadAt(0, head));
  PICCHIO_ASSIGN_OR_RETURN(const FlatSuperblock superblock, ParseFlatSuperblock(head, file.name()));
  if (superblock.data_offset() > file.size()) {
    return Error(Code::kCorrupt, "{} has {} bytes and ends inside its index, which ends at byte {}",
                 file.name(), file.size(), superblock.data_offset());
  }
  head.resize(superblock.data_offset());
  PICCHIO_RETURN_IF_ERROR(file.ReadAt(0, head));
  PICCHIO_ASSIGN_OR_RETURN(FlatIndex index, Parse(head, file.name()));
  PICCHIO_RETURN_IF_ERROR(index.CheckStoreBytes(file.size(), file.name()));
  return index;
}

const FlatEntry* FlatIndex::Find(int64_t layer, int64_t expert) const {
  if (layer < 0 || layer >= superblock_.num_layers || expert < 0 ||
      expert >= superblock_.num_experts) {
    return nullptr;
  }
  const FlatEntry& entry = entries_[static_cast<size_t>(layer * superblock_.num_experts + expert)];
  return entry.present() ? &entry : nullptr;
}

Status FlatIndex::CheckStoreBytes(uint64_t found_bytes, std::string_view where) const {
  if (found_bytes == store_bytes()) return Status::Ok();
  return Error(Code::kCorrupt, "{} has {} bytes, its index says {}: {}; run picchio pack again",
               where, found_bytes, store_bytes(),
               found_bytes < store_bytes() ? "it was cut short" : "something follows the store");
}

void FlatIndex::SetHashes(int64_t layer, int64_t expert, uint32_t crc32c,
                          const Sha256Digest& sha256) {
  PICCHIO_CHECK(Find(layer, expert) != nullptr);
  FlatEntry& entry = entries_[static_cast<size_t>(layer * superblock_.num_experts + expert)];
  if (superblock_.version == RecordVersion::kV2) {
    entry.sha256 = {};
    std::copy_n(sha256.bytes.begin(), kShortHash, entry.sha256.bytes.begin());
  } else {
    entry.crc32c = crc32c;
    entry.sha256 = sha256;
  }
}

std::vector<std::byte> FlatIndex::SerializeHead() {
  std::vector<std::byte> head(superblock_.data_offset());
  const auto index = std::span(head).subspan(superblock_.index_offset(), superblock_.index_bytes());
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].present()) continue;
    StoreEntry(entries_[i], superblock_, index.data() + i * superblock_.entry_bytes());
  }
  superblock_.index_sha256 = Sha256Of(index);
  const auto first = SerializeFlatSuperblock(superblock_);
  std::copy(first.begin(), first.end(), head.begin());
  return head;
}

bool MatchesSha256(const FlatEntry& entry, RecordVersion version,
                   const Sha256Digest& record_sha256) {
  const size_t kept = version == RecordVersion::kV2 ? kShortHash : record_sha256.bytes.size();
  return std::equal(record_sha256.bytes.begin(),
                    record_sha256.bytes.begin() + static_cast<ptrdiff_t>(kept),
                    entry.sha256.bytes.begin());
}

}  // namespace picchio
