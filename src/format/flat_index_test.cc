#include "format/flat_index.h"

#include "format/flat_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// INT4, 70 and 22: 2 x 22 rows of 35 bytes and 2 scales, 70 rows of 11 bytes and 1 scale.
constexpr size_t kV2Record = 44 * 35 + 44 * 8 + 70 * 11 + 70 * 4;
// MXFP4 with biases, 96 and 32: blocks 64 x 48 (3072), scales 64 x 3 (192), blocks 96 x 16 (1536),
// scales 96 (at 4800, to 4896), biases from 4928: 64 x 4 (256) and 96 x 4 (384).
constexpr size_t kV3Record = 4928 + 256 + 384;

std::string Record(uint32_t layer, uint32_t expert, size_t bytes) {
  std::string record(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) {
    record[i] = static_cast<char>(i * 7 + size_t{layer} * 31 + size_t{expert} * 101 + (i >> 8));
  }
  return record;
}

TestStore V2Store() {
  TestStore store;
  for (uint32_t layer = 1; layer < 3; ++layer) {
    for (uint32_t expert = 0; expert < 7; expert += layer) {
      store.records[{layer, expert}] = Record(layer, expert, kV2Record);
    }
  }
  return store;
}

TestStore V3Store() {
  TestStore store;
  store.version = 3;
  store.hidden = 96;
  store.moe_inter = 32;
  store.payload_kind = 1;
  store.flags = 1;
  store.weight = 2800;
  for (uint32_t layer = 0; layer < 4; layer += 3) {
    for (uint32_t expert = 1; expert < 7; ++expert) {
      store.records[{layer, expert}] = Record(layer, expert, kV3Record);
    }
  }
  return store;
}

Result<FlatIndex> ReadStore(const std::string& bytes) {
  return FlatIndex::Read(MemoryFile("a.picchioflat", BytesOf(bytes)));
}

void ExpectFinds(const FlatIndex& index, const TestStore& store, const std::string& bytes) {
  for (uint32_t layer = 0; layer < store.n_layers; ++layer) {
    for (uint32_t expert = 0; expert < store.n_experts; ++expert) {
      const FlatEntry* entry = index.Find(layer, expert);
      const auto record = store.records.find({layer, expert});
      ASSERT_EQ(entry != nullptr, record != store.records.end()) << layer << " " << expert;
      if (entry == nullptr) continue;
      EXPECT_EQ(bytes.substr(entry->offset, entry->bytes), record->second);
      EXPECT_EQ(entry->offset % store.block_size, 0u);
      EXPECT_EQ(entry->padded_bytes % store.block_size, 0u);
      EXPECT_TRUE(MatchesSha256(*entry, index.superblock().version, Sha256Of(record->second)));
      EXPECT_FALSE(MatchesSha256(*entry, index.superblock().version, Sha256Of("another")));
      if (store.version == 3) {
        EXPECT_EQ(entry->crc32c, Crc32c(BytesOf(record->second)));
      }
    }
  }
  for (const auto& [layer, expert] :
       {std::pair<int64_t, int64_t>{-1, 0}, {0, -1}, {0, 7}, {4, 0}, {INT64_MAX, INT64_MAX}}) {
    EXPECT_EQ(index.Find(layer, expert), nullptr);
  }
}

// Joined by the test's own code from the page, hashed by ours: tests/pack_bytes_test has another's.
TEST(FlatIndex, ReadsWhatTheTestsWriterWrote) {
  for (const uint32_t block_size : {4096u, 16384u, 1u << 20}) {
    for (TestStore store : {V2Store(), V3Store()}) {
      store.block_size = block_size;
      const std::string bytes = store.Bytes();
      ASSERT_OK_AND_ASSIGN(const FlatIndex index, ReadStore(bytes));
      EXPECT_EQ(index.store_bytes(), bytes.size());
      EXPECT_EQ(index.superblock().num_entries, store.records.size());
      ExpectFinds(index, store, bytes);
    }
  }
}

TEST(FlatIndex, ReadsAllFieldsOfVersion3) {
  TestStore store = V3Store();
  store.dense = "a safetensors image";
  store.role = 1;
  store.member = 2;
  store.members = 5;
  store.set_id = "set of five file";
  const std::string bytes = store.Bytes();
  ASSERT_OK_AND_ASSIGN(const FlatIndex index, ReadStore(bytes));
  const FlatSuperblock& superblock = index.superblock();
  EXPECT_EQ(superblock.hidden_size, 96u);
  EXPECT_EQ(superblock.num_layers, 4u);
  EXPECT_EQ(superblock.num_experts, 7u);
  EXPECT_EQ(superblock.experts_per_token, 2u);
  EXPECT_EQ(superblock.intermediate_size, 32u);
  EXPECT_EQ(superblock.kind, PayloadKind::kMxfp4);
  EXPECT_TRUE(superblock.has_biases);
  EXPECT_EQ(std::string(superblock.model_id.bytes.begin(), superblock.model_id.bytes.end()),
            store.model_id);
  EXPECT_EQ(superblock.member, 2u);
  EXPECT_EQ(superblock.members, 5u);
  EXPECT_EQ(superblock.role, FlatRole::kStripe);
  EXPECT_EQ(std::string(superblock.set_id.begin(), superblock.set_id.end()), store.set_id);
  EXPECT_EQ(superblock.weight, 2800u);
  EXPECT_EQ(bytes.substr(superblock.dense_offset, superblock.dense_bytes), store.dense);
  EXPECT_EQ(superblock.dense_sha256, Sha256Of(store.dense));
}

TEST(FlatIndex, WritesWhatTheIndependentWriterWrites) {
  for (TestStore store : {V2Store(), V3Store()}) {
    for (const char* dense : {"", "blob"}) {
      if (store.version == 2 && *dense != '\0') continue;
      store.dense = dense;
      const std::string bytes = store.Bytes();
      FlatSuperblock facts;
      facts.version = static_cast<RecordVersion>(store.version);
      facts.hidden_size = store.hidden;
      facts.num_layers = store.n_layers;
      facts.num_experts = store.n_experts;
      facts.experts_per_token = store.topk;
      facts.intermediate_size = store.moe_inter;
      if (store.version == 3) {
        facts.kind = PayloadKind::kMxfp4;
        facts.has_biases = true;
        std::copy_n(store.model_id.begin(), 16, facts.model_id.bytes.begin());
        facts.weight = store.weight;
      }
      std::vector<bool> present(28);
      for (const auto& [key, record] : store.records) present[key.first * 7 + key.second] = true;
      ASSERT_OK_AND_ASSIGN(FlatIndex index, FlatIndex::Place(facts, present, store.dense.size()));
      for (const auto& [key, record] : store.records) {
        index.SetHashes(key.first, key.second, Crc32c(BytesOf(record)), Sha256Of(record));
      }
      if (!store.dense.empty()) index.SetDenseHash(Sha256Of(store.dense));
      const std::vector<std::byte> head = index.SerializeHead();
      EXPECT_EQ(index.store_bytes(), bytes.size());
      ASSERT_EQ(head.size(), index.superblock().data_offset());
      EXPECT_TRUE(std::equal(head.begin(), head.end(), BytesOf(bytes).begin()));
    }
  }
}

}  // namespace
}  // namespace picchio
