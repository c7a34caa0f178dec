#include "format/flat_superblock.h"

#include <algorithm>
#include <bit>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/printable.h"

namespace picchio {
namespace {

constexpr size_t kV2End = 96;
constexpr size_t kV3End = 212;
constexpr size_t kCrcOffset = kFlatSuperblockBytes - 4;
constexpr uint32_t kBiasFlag = 1;
// An entry names its member in 16 bits.
constexpr uint32_t kMaxMembers = 1 << 16;

// The fields of bytes that are long enough.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint32_t U32(size_t at) const { return LoadLittleEndian<uint32_t>(bytes_.data() + at); }
  uint64_t U64(size_t at) const { return LoadLittleEndian<uint64_t>(bytes_.data() + at); }
  template <size_t n>
  std::array<uint8_t, n> Bytes(size_t at) const {
    std::array<uint8_t, n> out{};
    std::memcpy(out.data(), bytes_.data() + at, n);
    return out;
  }

 private:
  std::span<const std::byte> bytes_;
};

Status CheckRange(const char* name, uint32_t value, uint32_t max) {
  if (value >= 1 && value <= max) return Status::Ok();
  return Error(Code::kInvalidArgument, "{} is {}, expected 1 to {}", name, value, max);
}

Status CheckSet(const FlatSuperblock& superblock) {
  const bool has_id = superblock.set_id != decltype(superblock.set_id){};
  if (superblock.role == FlatRole::kSingle) {
    if (superblock.member == 0 && superblock.members == 1 && !has_id) return Status::Ok();
    return Error(Code::kInvalidArgument,
                 "role is 0 (single), but member is {} of {} members{}; expected 0 of 1 and no set "
                 "id",
                 superblock.member, superblock.members, has_id ? " with a set id" : "");
  }
  if (superblock.members < 2 || superblock.members > kMaxMembers ||
      superblock.member >= superblock.members || !has_id) {
    return Error(Code::kInvalidArgument,
                 "role is {}, but member is {} of {} members{}; expected 2 to {} members and a set "
                 "id",
                 static_cast<uint32_t>(superblock.role), superblock.member, superblock.members,
                 has_id ? "" : " without a set id", kMaxMembers);
  }
  return Status::Ok();
}

Status CheckVersion3(const FlatSuperblock& superblock) {
  const bool dense = superblock.dense_bytes > 0;
  if (dense != (superblock.dense_offset > 0) ||
      superblock.dense_offset % superblock.block_size != 0 ||
      (!dense && superblock.dense_sha256 != Sha256Digest{})) {
    return Error(Code::kInvalidArgument,
                 "dense_offset is {} and dense_len {}; expected a block's offset and a length, or "
                 "zeros and no hash",
                 superblock.dense_offset, superblock.dense_bytes);
  }
  return CheckSet(superblock);
}

Status ReadVersion3(const Fields& fields, FlatSuperblock& superblock) {
  const uint32_t kind = fields.U32(96);
  const uint32_t flags = fields.U32(100);
  const uint32_t role = fields.U32(156);
  if (kind > static_cast<uint32_t>(PayloadKind::kBf16)) {
    return Error(Code::kUnsupported,
                 "payload_kind {} is unknown; this program reads 0 (INT4), 1 (MXFP4) and 2 (BF16)",
                 kind);
  }
  if ((flags & ~kBiasFlag) != 0) {
    return Error(Code::kUnsupported, "flags {:#x} has unknown bits; this program knows {:#x}",
                 flags, kBiasFlag);
  }
  if (role > static_cast<uint32_t>(FlatRole::kMirror)) {
    return Error(Code::kUnsupported,
                 "role {} is unknown; this program reads 0 (single), 1 (stripe) and 2 (mirror)",
                 role);
  }
  superblock.kind = static_cast<PayloadKind>(kind);
  superblock.has_biases = flags != 0;
  superblock.dense_offset = fields.U64(104);
  superblock.dense_bytes = fields.U64(112);
  superblock.model_id.bytes = fields.Bytes<16>(120);
  superblock.store_bytes = fields.U64(136);
  superblock.member = fields.U32(148);
  superblock.members = fields.U32(152);
  superblock.role = static_cast<FlatRole>(role);
  superblock.set_id = fields.Bytes<16>(160);
  superblock.dense_sha256.bytes = fields.Bytes<32>(176);
  superblock.weight = fields.U32(208);
  return CheckFlatField("entry_bytes", fields.U32(144), superblock.entry_bytes());
}

Result<FlatSuperblock> ParseFields(std::span<const std::byte> bytes) {
  const Fields fields(bytes);
  const std::string_view magic(reinterpret_cast<const char*>(bytes.data()), kFlatMagic.size());
  if (std::all_of(magic.begin(), magic.end(), [](char c) { return c == 0; })) {
    return Error(Code::kCorrupt,
                 "begins with zeros: a store that was never finished, or none; run picchio pack");
  }
  if (magic != kFlatMagic) {
    return Error(Code::kCorrupt, "is no expert store: it begins with {}, expected {}",
                 Quoted(magic), Quoted(kFlatMagic));
  }
  const uint32_t version = fields.U32(8);
  if (version != 2 && version != 3) {
    return Error(Code::kUnsupported,
                 "is an expert store of version {}, this program reads 2 and 3; pack the model "
                 "again, or use a newer picchio",
                 version);
  }
  if (version == 3) {
    const uint32_t found = Crc32c(bytes.first(kCrcOffset));
    const uint32_t stated = fields.U32(kCrcOffset);
    if (found != stated) {
      return Error(Code::kCorrupt,
                   "has a damaged superblock: its checksum is {:#010x}, expected {:#010x}", found,
                   stated);
    }
  }

  FlatSuperblock superblock;
  superblock.version = static_cast<RecordVersion>(version);
  superblock.block_size = fields.U32(12);
  superblock.hidden_size = fields.U32(16);
  superblock.num_layers = fields.U32(20);
  superblock.num_experts = fields.U32(24);
  superblock.experts_per_token = fields.U32(28);
  superblock.intermediate_size = fields.U32(32);
  superblock.num_entries = fields.U32(36);
  superblock.index_sha256.bytes = fields.Bytes<32>(64);
  if (version == 3) PICCHIO_RETURN_IF_ERROR(ReadVersion3(fields, superblock));
  if (Status status = CheckFlatSuperblock(superblock); !status.ok()) {
    return Error(status.code() == Code::kUnsupported ? Code::kUnsupported : Code::kCorrupt, "{}",
                 status.message());
  }
  // The sizes are in their ranges now, so nothing here wraps.
  PICCHIO_RETURN_IF_ERROR(
      CheckFlatField("index_offset", fields.U64(40), superblock.index_offset()));
  PICCHIO_RETURN_IF_ERROR(CheckFlatField("index_len", fields.U64(48), superblock.index_bytes()));
  PICCHIO_RETURN_IF_ERROR(CheckFlatField("data_offset", fields.U64(56), superblock.data_offset()));
  const size_t end = version == 3 ? kV3End : kV2End;
  const size_t reserved_end = version == 3 ? kCrcOffset : kFlatSuperblockBytes;
  for (size_t at = end; at < reserved_end; ++at) {
    if (bytes[at] == std::byte{0}) continue;
    return Error(Code::kCorrupt, "byte {} of the superblock is {:#04x}, reserved and expected 0",
                 at, static_cast<unsigned>(bytes[at]));
  }
  return superblock;
}

}  // namespace

Status CheckFlatSuperblock(const FlatSuperblock& superblock) {
  const uint32_t block_size = superblock.block_size;
  if (!std::has_single_bit(block_size) || block_size < kMinFlatBlock ||
      block_size > kMaxFlatBlock) {
    return Error(Code::kInvalidArgument, "block_size is {}, expected a power of two from {} to {}",
                 block_size, kMinFlatBlock, kMaxFlatBlock);
  }
  PICCHIO_RETURN_IF_ERROR(CheckRange("n_layers", superblock.num_layers, kMaxFlatLayers));
  PICCHIO_RETURN_IF_ERROR(CheckRange("n_experts", superblock.num_experts, kMaxFlatExperts));
  PICCHIO_RETURN_IF_ERROR(CheckRange("topk", superblock.experts_per_token, superblock.num_experts));
  PICCHIO_ASSIGN_OR_RETURN(
      const ExpertRecordLayout layout,
      ExpertRecordLayout::Make(superblock.kind, superblock.version, superblock.hidden_size,
                               superblock.intermediate_size, superblock.has_biases));
  const uint64_t padded_bytes = RoundUp(layout.record_bytes, block_size);
  if (padded_bytes > UINT32_MAX) {
    return Error(Code::kUnsupported, "an expert of {} bytes is more than a store's entry can say",
                 layout.record_bytes);
  }
  if (superblock.num_entries > superblock.num_places()) {
    return Error(Code::kInvalidArgument, "n_entries is {}, but there are only {} x {} experts",
                 superblock.num_entries, superblock.num_layers, superblock.num_experts);
  }
  return superblock.version == RecordVersion::kV3 ? CheckVersion3(superblock) : Status::Ok();
}

Status CheckFlatField(const char* name, uint64_t found, uint64_t expected) {
  if (found == expected) return Status::Ok();
  return Error(Code::kCorrupt, "{} is {}, expected {}", name, found, expected);
}

std::array<std::byte, kFlatSuperblockBytes> SerializeFlatSuperblock(
    const FlatSuperblock& superblock) {
  std::array<std::byte, kFlatSuperblockBytes> bytes{};
  const auto put32 = [&](size_t at, uint32_t v) { StoreLittleEndian(v, bytes.data() + at); };
  const auto put64 = [&](size_t at, uint64_t v) { StoreLittleEndian(v, bytes.data() + at); };
  const auto put = [&](size_t at, const auto& v) { std::memcpy(&bytes[at], v.data(), v.size()); };
  put(0, kFlatMagic);
  put32(8, static_cast<uint32_t>(superblock.version));
  put32(12, superblock.block_size);
  put32(16, superblock.hidden_size);
  put32(20, superblock.num_layers);
  put32(24, superblock.num_experts);
  put32(28, superblock.experts_per_token);
  put32(32, superblock.intermediate_size);
  put32(36, superblock.num_entries);
  put64(40, superblock.index_offset());
  put64(48, superblock.index_bytes());
  put64(56, superblock.data_offset());
  put(64, superblock.index_sha256.bytes);
  if (superblock.version == RecordVersion::kV2) return bytes;
  put32(96, static_cast<uint32_t>(superblock.kind));
  put32(100, superblock.has_biases ? kBiasFlag : 0);
  put64(104, superblock.dense_offset);
  put64(112, superblock.dense_bytes);
  put(120, superblock.model_id.bytes);
  put64(136, superblock.store_bytes);
  put32(144, static_cast<uint32_t>(superblock.entry_bytes()));
  put32(148, superblock.member);
  put32(152, superblock.members);
  put32(156, static_cast<uint32_t>(superblock.role));
  put(160, superblock.set_id);
  put(176, superblock.dense_sha256.bytes);
  put32(208, superblock.weight);
  put32(kCrcOffset, Crc32c(std::span(bytes).first(kCrcOffset)));
  return bytes;
}

Result<FlatSuperblock> ParseFlatSuperblock(std::span<const std::byte> bytes,
                                           std::string_view where) {
  if (bytes.size() < kFlatSuperblockBytes) {
    return Error(Code::kCorrupt, "{} has {} bytes; an expert store has a superblock of at least {}",
                 where, bytes.size(), kFlatSuperblockBytes);
  }
  auto superblock = ParseFields(bytes.first(kFlatSuperblockBytes));
  if (!superblock.has_value()) return superblock.error().WithContext(where);
  return superblock;
}

}  // namespace picchio
