#include "experts/record_hashes.h"

#include "base/crc32c.h"

namespace picchio {

Status CheckRecordHashes(const FlatEntry& entry, RecordVersion version, bool verify_sha256,
                         std::span<const std::byte> record, FunctionRef<std::string()> place) {
  if (version == RecordVersion::kV3) {
    const uint32_t found = Crc32c(record);
    if (found != entry.crc32c) {
      return Error(Code::kCorrupt, "checksum {:#010x}, expected {:#010x}, {}", found, entry.crc32c,
                   place());
    }
  }
  if (!verify_sha256) return Status::Ok();
  const Sha256Digest found = Sha256Of(record);
  if (MatchesSha256(entry, version, found)) return Status::Ok();
  const size_t digits = version == RecordVersion::kV2 ? 16 : 64;
  return Error(Code::kCorrupt, "SHA-256 {}, expected {}, {}", found.Hex().substr(0, digits),
               entry.sha256.Hex().substr(0, digits), place());
}

}  // namespace picchio
