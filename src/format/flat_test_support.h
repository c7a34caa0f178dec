// Expert stores for tests, written field by field as docs/format.md says and sharing nothing with
// the code that is tested but SHA-256 and CRC-32C. Any field may be set to anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/hash.h"

namespace picchio {

inline std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

struct TestStore {
  uint32_t version = 2;
  uint32_t block_size = 4096;
  uint32_t hidden = 70;
  uint32_t n_layers = 4;
  uint32_t n_experts = 7;
  uint32_t topk = 2;
  uint32_t moe_inter = 22;
  // Of version 3.
  uint32_t payload_kind = 0;
  uint32_t flags = 0;
  std::string model_id = "0123456789abcdef";
  uint32_t member = 0;
  uint32_t members = 1;
  uint32_t role = 0;
  std::string set_id = std::string(16, '\0');
  std::string dense{};
  uint32_t weight = 0;

  std::map<std::pair<uint32_t, uint32_t>, std::string> records{};  // By layer and expert.

  // Last changes: to the entries' bytes before the index is hashed, and to the fields of the
  // superblock (offset, bytes) before version 3's checksum.
  std::function<void(std::string& index)> edit_index = nullptr;
  std::map<size_t, std::string> fields{};

  static std::string Number(uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
    return out;
  }

  static std::string Padded(std::string bytes, uint64_t block) {
    bytes.resize((bytes.size() + block - 1) / block * block);
    return bytes;
  }

  size_t EntryBytes() const { return version == 2 ? 24 : 64; }
  size_t IndexBytes() const { return size_t{n_layers} * n_experts * EntryBytes(); }

  std::string Entry(const std::string& record, uint64_t offset) const {
    const Sha256Digest digest = Sha256Of(record);
    const std::string sha(digest.bytes.begin(), digest.bytes.end());
    const std::string place =
        Number(offset, 8) + Number(record.size(), 4) + Number(Padded(record, block_size).size(), 4);
    if (version == 2) return place + sha.substr(0, 8);
    return place + Number(payload_kind, 2) + Number(0, 2) + Number(member, 2) + Number(0, 2) +
           Number(Crc32c(std::as_bytes(std::span(record))), 4) + Number(0, 4) + sha;
  }

  std::string Bytes() const {
    const uint64_t index_padded = (IndexBytes() + block_size - 1) / block_size * block_size;
    const uint64_t data_offset = block_size + index_padded;
    std::string index;
    std::string data;
    for (uint32_t layer = 0; layer < n_layers; ++layer) {
      for (uint32_t expert = 0; expert < n_experts; ++expert) {
        const auto record = records.find({layer, expert});
        if (record == records.end()) {
          index.append(EntryBytes(), '\0');
          continue;
        }
        index += Entry(record->second, data_offset + data.size());
        data += Padded(record->second, block_size);
      }
    }
    if (edit_index) edit_index(index);
    const Sha256Digest index_sha = Sha256Of(index);

    const uint64_t dense_offset = dense.empty() ? 0 : data_offset + data.size();
    data += Padded(dense, block_size);
    std::string first = "PCHIOFL1" + Number(version, 4) + Number(block_size, 4) +
                        Number(hidden, 4) + Number(n_layers, 4) + Number(n_experts, 4) +
                        Number(topk, 4) + Number(moe_inter, 4) + Number(records.size(), 4) +
                        Number(block_size, 8) + Number(IndexBytes(), 8) + Number(data_offset, 8) +
                        std::string(index_sha.bytes.begin(), index_sha.bytes.end());
    if (version == 3) {
      const Sha256Digest dense_sha = dense.empty() ? Sha256Digest{} : Sha256Of(dense);
      first += Number(payload_kind, 4) + Number(flags, 4) + Number(dense_offset, 8) +
               Number(dense.size(), 8) + model_id + Number(data_offset + data.size(), 8) +
               Number(64, 4) + Number(member, 4) + Number(members, 4) + Number(role, 4) + set_id +
               std::string(dense_sha.bytes.begin(), dense_sha.bytes.end()) + Number(weight, 4);
    }
    first.resize(block_size);
    for (const auto& [at, bytes] : fields) first.replace(at, bytes.size(), bytes);
    if (version == 3) Seal(first);
    return first + Padded(index, block_size) + data;
  }

  // Makes version 3's checksum right again.
  static void Seal(std::string& store) {
    store.replace(4092, 4, Number(Crc32c(std::as_bytes(std::span(store.data(), size_t{4092}))), 4));
  }
};

}  // namespace picchio
