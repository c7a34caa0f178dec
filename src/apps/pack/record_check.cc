#include "apps/pack/record_check.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/hash.h"

namespace picchio {
namespace {

// What a store of this version keeps of a SHA-256, as digits.
std::string KeptDigits(const Sha256Digest& sha256, RecordVersion version) {
  const std::string hex = sha256.Hex();
  return version == RecordVersion::kV2 ? hex.substr(0, 16) : hex;
}

}  // namespace

std::vector<RecordPlace> RecordsOf(const FlatIndex& index) {
  std::vector<RecordPlace> records;
  records.reserve(index.superblock().num_entries);
  for (uint32_t layer = 0; layer < index.superblock().num_layers; ++layer) {
    for (uint32_t expert = 0; expert < index.superblock().num_experts; ++expert) {
      if (index.Find(layer, expert) != nullptr) records.push_back({layer, expert});
    }
  }
  return records;
}

std::vector<RecordRun> RunsOf(const FlatIndex& index, uint64_t max_bytes) {
  const size_t records = index.superblock().num_entries;
  const size_t length = std::max<uint64_t>(1, max_bytes / index.padded_record_bytes());
  std::vector<RecordRun> runs;
  for (size_t first = 0; first < records; first += length) {
    runs.push_back({first, std::min(records, first + length)});
  }
  return runs;
}

void SetRecordHashes(FlatIndex& index, RecordPlace place, std::span<const std::byte> record) {
  const bool v2 = index.superblock().version == RecordVersion::kV2;
  index.SetHashes(place.layer, place.expert, v2 ? 0 : Crc32c(record), Sha256Of(record));
}

Status CheckRecord(const FlatIndex& index, RecordPlace place, std::span<const std::byte> stored) {
  const RecordVersion version = index.superblock().version;
  const FlatEntry& entry = *index.Find(place.layer, place.expert);
  const auto fault = [&](const std::string& what, uint64_t at) {
    return Error(Code::kCorrupt, "layer {} expert {}: {}, at byte {}", place.layer, place.expert,
                 what, entry.offset + at);
  };
  const auto record = stored.first(entry.bytes);
  const auto padding = stored.subspan(entry.bytes);
  if (version != RecordVersion::kV2) {
    const uint32_t crc = Crc32c(record);
    if (crc != entry.crc32c) {
      return fault(fmt::format("CRC-32C {:08x}, the index says {:08x}", crc, entry.crc32c), 0);
    }
  }
  const Sha256Digest sha256 = Sha256Of(record);
  if (!MatchesSha256(entry, version, sha256)) {
    return fault(
        fmt::format("SHA-256 {}{}, the index says {}", KeptDigits(sha256, version),
                    version == RecordVersion::kV2 ? "..." : "", KeptDigits(entry.sha256, version)),
        0);
  }
  const auto at = std::ranges::find_if(padding, [](std::byte b) { return b != std::byte{0}; });
  if (at == padding.end()) return Status::Ok();
  return fault(fmt::format("padding is {:#04x}, expected 0", static_cast<unsigned>(*at)),
               entry.bytes + static_cast<uint64_t>(at - padding.begin()));
}

}  // namespace picchio
