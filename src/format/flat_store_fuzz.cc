#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/little_endian.h"
#include "format/flat_index.h"

using picchio::Crc32c;
using picchio::FlatEntry;
using picchio::FlatIndex;
using picchio::FlatSuperblock;
using picchio::LoadLittleEndian;
using picchio::MemoryFile;
using picchio::Sha256Digest;
using picchio::Sha256Of;
using picchio::StoreLittleEndian;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  (void)FlatIndex::Read(MemoryFile("input", bytes)).has_value();

  // No fuzzer finds a SHA-256 or a CRC: seal the first block and the index, so that the rest is
  // reached.
  if (size < picchio::kFlatSuperblockBytes) return 0;
  const auto block_size = LoadLittleEndian<uint32_t>(&bytes[12]);
  const auto index_bytes = LoadLittleEndian<uint64_t>(&bytes[48]);
  const auto data_offset = LoadLittleEndian<uint64_t>(&bytes[56]);
  if (block_size <= size && index_bytes <= size - block_size) {
    const Sha256Digest sha256 =
        Sha256Of(std::span<const std::byte>(bytes).subspan(block_size, index_bytes));
    std::memcpy(&bytes[64], sha256.bytes.data(), sha256.bytes.size());
  }
  if (LoadLittleEndian<uint32_t>(&bytes[8]) == 3) {
    StoreLittleEndian(Crc32c(std::span<const std::byte>(bytes).first(4092)), &bytes[4092]);
  }
  if (data_offset > size) return 0;
  const auto head = std::span<const std::byte>(bytes).first(data_offset);
  auto index = FlatIndex::Parse(head, "input");
  if (!index.has_value()) return 0;
  const FlatSuperblock& superblock = index->superblock();
  for (uint32_t layer = 0; layer < superblock.num_layers; ++layer) {
    for (uint32_t expert = 0; expert < superblock.num_experts; ++expert) {
      const FlatEntry* entry = index->Find(layer, expert);
      if (entry == nullptr) continue;
      PICCHIO_CHECK(entry->offset >= data_offset && entry->bytes <= entry->padded_bytes);
      PICCHIO_CHECK(entry->offset + entry->padded_bytes <= index->store_bytes());
    }
  }
  const std::vector<std::byte> again = index->SerializeHead();
  PICCHIO_CHECK(std::memcmp(again.data(), head.data(), head.size()) == 0);
  return 0;
}
