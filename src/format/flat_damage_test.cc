// What the heads of damaged and of strange stores come to: never anything but a refusal by name.
#include <algorithm>

#include "format/flat_index.h"
#include "format/flat_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

Result<FlatIndex> ReadStore(std::string_view bytes) {
  return FlatIndex::Read(MemoryFile("a.picchioflat", BytesOf(bytes)));
}

// Two layers of two experts, the last absent: bytes of the golden stores' first cousins.
TestStore Small(uint32_t version) {
  TestStore store;
  store.version = version;
  store.hidden = store.moe_inter = 64;
  store.n_layers = store.n_experts = 2;
  store.topk = 1;
  for (uint32_t i = 0; i < 3; ++i) {
    store.records[{i / 2, i % 2}] = std::string(192 * 36, static_cast<char>('a' + i));
  }
  return store;
}

// The golden stores are written by a script of their own.
TEST(FlatDamage, GoldenStoresAreWhole) {
  ASSERT_OK_AND_ASSIGN(const FlatIndex v2,
                       ReadStore(ReadAll(TestData("format/example_v2.picchioflat"))));
  EXPECT_EQ(v2.superblock().num_entries, 2u);
  EXPECT_EQ(v2.Find(1, 1)->offset, 12288u);
  EXPECT_EQ(v2.Find(1, 1)->bytes, 30u);
  EXPECT_EQ(v2.Find(0, 1), nullptr);
  ASSERT_OK_AND_ASSIGN(FlatIndex v3, ReadStore(ReadAll(TestData("format/example_v3.picchioflat"))));
  EXPECT_EQ(v3.superblock().model_id.Hex(), "000102030405060708090a0b0c0d0e0f");
  EXPECT_EQ(v3.superblock().weight, 2800u);
  EXPECT_EQ(v3.Find(0, 2)->crc32c, 0xeafb2543u);
  const std::vector<std::byte> head = v3.SerializeHead();
  const std::string bytes = ReadAll(TestData("format/example_v3.picchioflat"));
  EXPECT_TRUE(std::equal(head.begin(), head.end(), BytesOf(bytes).begin()));
}

// In version 2 nothing in the store covers these: the model's config does.
bool OnlyTheModelKnows(uint32_t version, size_t at) {
  return version == 2 && at >= 28 && at < 32;  // topk
}

TEST(FlatDamage, EveryByteOfTheHeadCounts) {
  for (const uint32_t version : {2, 3}) {
    const std::string whole = Small(version).Bytes();
    ASSERT_OK(ReadStore(whole));
    for (size_t at = 0; at < 2 * 4096; ++at) {
      for (const int bits : {0x01, 0x80, 0xff}) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ bits);
        auto read = ReadStore(damaged);
        if (OnlyTheModelKnows(version, at) && read.has_value()) {
          EXPECT_NE(read->superblock().experts_per_token, 1u);
          continue;
        }
        ASSERT_FALSE(read.has_value()) << "version " << version << " byte " << at;
        EXPECT_TRUE(read.error().code() == Code::kCorrupt ||
                    read.error().code() == Code::kUnsupported);
        EXPECT_TRUE(read.error().message().starts_with("a.picchioflat")) << read.error().message();
      }
    }
  }
}

struct Field {
  const char* name;
  size_t at;
  int bytes;
};

// Whatever a field says, and however well the checksums are made to fit, the store is refused or
// the value was right.
TEST(FlatDamage, EveryFieldAtItsEnds) {
  const Field fields[] = {
      {"version", 8, 4},       {"block_size", 12, 4},    {"hidden", 16, 4},
      {"n_layers", 20, 4},     {"n_experts", 24, 4},     {"topk", 28, 4},
      {"moe_inter", 32, 4},    {"n_entries", 36, 4},     {"index_offset", 40, 8},
      {"index_len", 48, 8},    {"data_offset", 56, 8},   {"payload_kind", 96, 4},
      {"flags", 100, 4},       {"dense_offset", 104, 8}, {"dense_len", 112, 8},
      {"store_bytes", 136, 8}, {"entry_bytes", 144, 4},  {"member", 148, 4},
      {"members", 152, 4},     {"role", 156, 4}};
  for (const uint32_t version : {2, 3}) {
    const TestStore store = Small(version);
    const std::string whole = store.Bytes();
    for (const Field& field : fields) {
      const uint64_t max = field.bytes == 4 ? UINT32_MAX : UINT64_MAX;
      // The last: index_len so that what is added to it wraps.
      for (const uint64_t value : {uint64_t{0}, uint64_t{1}, max - 1, max, max - 4095,
                                   uint64_t{1} << 63, uint64_t{1} << 31}) {
        TestStore changed = store;
        changed.fields[field.at] = TestStore::Number(value, field.bytes);
        const std::string bytes = changed.Bytes();
        if (bytes == whole) continue;
        auto read = ReadStore(bytes);
        if (read.has_value() && field.at == 28) continue;  // topk: see above.
        EXPECT_FALSE(read.has_value()) << field.name << " " << value << " version " << version;
      }
    }
  }
}

TEST(FlatDamage, NamesWhatItDoesNotKnow) {
  struct Case {
    size_t at;
    std::string bytes;
    const char* message;
  };
  const Case cases[] = {{8, TestStore::Number(4, 4), "version 4, this program reads 2 and 3"},
                        {0, "PCHIOFL2", "begins with \"PCHIOFL2\", expected \"PCHIOFL1\""},
                        {0, std::string(8, '\0'), "never finished"},
                        {96, TestStore::Number(3, 4), "payload_kind 3 is unknown"},
                        {100, TestStore::Number(2, 4), "flags 0x2 has unknown bits"},
                        {156, TestStore::Number(3, 4), "role 3 is unknown"},
                        {152, TestStore::Number(2, 4), "member is 0 of 2 members"},
                        {12, TestStore::Number(12288, 4), "block_size is 12288"},
                        {36, TestStore::Number(4, 4), "n_entries is 4, expected 3"},
                        {136, TestStore::Number(4096, 8), "store_bytes is 4096, expected"},
                        {212, "x", "byte 212 of the superblock is 0x78, reserved"},
                        {4091, "x", "byte 4091 of the superblock is 0x78, reserved"}};
  for (const Case& tested : cases) {
    TestStore store = Small(3);
    store.fields[tested.at] = tested.bytes;
    auto read = ReadStore(store.Bytes());
    ASSERT_FALSE(read.has_value()) << tested.message;
    EXPECT_NE(read.error().message().find(tested.message), std::string::npos)
        << read.error().message();
  }
}

// Entries that are wrong under an index hash that is right.
TEST(FlatDamage, EntriesAreCheckedOneByOne) {
  struct Case {
    uint32_t version;
    size_t at;  // In the second entry.
    std::string bytes;
    const char* message;
  };
  const std::string first_offset = TestStore::Number(8192, 8);
  const Case cases[] = {
      {2, 0, first_offset, "layer 0 expert 1, at byte 4120: offset is 8192, expected 16384"},
      {2, 0, TestStore::Number(4096, 8), "offset is 4096"},  // Into the index.
      {2, 0, TestStore::Number(16385, 8), "offset is 16385"},
      {2, 0, TestStore::Number(UINT64_MAX, 8), "offset is 18446744073709551615"},
      {2, 0, TestStore::Number(uint64_t{1} << 40, 8), "offset is 1099511627776"},
      {2, 8, TestStore::Number(6911, 4), "len is 6911, expected 6912"},
      {2, 8, TestStore::Number(UINT32_MAX, 4), "len is 4294967295"},
      {2, 12, TestStore::Number(4096, 4), "padded_len is 4096, expected 8192"},
      {2, 12, TestStore::Number(0, 4), "padded_len is 0"},
      {3, 0, first_offset, "layer 0 expert 1, at byte 4160: offset is 8192, expected 16384"},
      {3, 8, TestStore::Number(0, 4), "len is 0"},
      {3, 16, TestStore::Number(3, 2), "kind 3 is unknown"},
      {3, 16, TestStore::Number(1, 2), "kind is 1, expected 0"},
      {3, 18, TestStore::Number(1, 2), "codec 1 is unknown"},
      {3, 20, TestStore::Number(1, 2), "member is 1, expected 0"},
      {3, 22, TestStore::Number(1, 2), "the field at byte 22 is 1"},
      {3, 28, TestStore::Number(1, 4), "the field at byte 28 is 1"},
      {2, 0, std::string(24, '\0'), "layer 1 expert 0, at byte 4144: offset"},  // A hole.
  };
  for (const Case& tested : cases) {
    TestStore store = Small(tested.version);
    store.edit_index = [&](std::string& index) {
      index.replace(store.EntryBytes() + tested.at, tested.bytes.size(), tested.bytes);
    };
    auto read = ReadStore(store.Bytes());
    ASSERT_FALSE(read.has_value()) << tested.message;
    EXPECT_NE(read.error().message().find(tested.message), std::string::npos)
        << read.error().message();
  }
}

TEST(FlatDamage, CutAtEveryBlockAndOddPlaces) {
  for (const uint32_t version : {2, 3}) {
    const std::string whole = Small(version).Bytes();
    for (size_t size = 0; size <= whole.size() + 4096; size += 1024) {
      for (const size_t cut : {size, size + 1}) {
        std::string bytes = whole;
        bytes.resize(cut);
        EXPECT_EQ(ReadStore(bytes).has_value(), cut == whole.size()) << cut;
      }
    }
  }
}

TEST(FlatDamage, PaddingOfLargeBlocksIsChecked) {
  for (const uint32_t version : {2, 3}) {
    TestStore store = Small(version);
    store.block_size = 16384;
    const std::string whole = store.Bytes();
    ASSERT_OK(ReadStore(whole));
    for (const size_t at : {4096u, 16383u, 16384u + 300u, 32767u}) {
      std::string bytes = whole;
      bytes[at] = 1;
      EXPECT_THAT(ReadStore(bytes), Fails(Code::kCorrupt, "padding and expected 0"));
    }
  }
}

TEST(FlatDamage, PlacesOnlyWhatTheFormatHolds) {
  FlatSuperblock facts;
  facts.hidden_size = facts.intermediate_size = 64;
  facts.num_layers = facts.num_experts = 2;
  facts.experts_per_token = 1;
  ASSERT_OK(FlatIndex::Place(facts, std::vector<bool>(4, true)));
  EXPECT_THAT(FlatIndex::Place(facts, std::vector<bool>(5)),
              Fails(Code::kInvalidArgument, "5 places for 2 x 2"));
  EXPECT_THAT(FlatIndex::Place(facts, std::vector<bool>(4), 1),
              Fails(Code::kInvalidArgument, "no dense image"));
  facts.kind = PayloadKind::kBf16;
  EXPECT_THAT(FlatIndex::Place(facts, std::vector<bool>(4)),
              Fails(Code::kUnsupported, "version 3"));
  facts.version = RecordVersion::kV3;
  facts.hidden_size = facts.intermediate_size = 1 << 16;
  EXPECT_THAT(FlatIndex::Place(facts, std::vector<bool>(4)),
              Fails(Code::kUnsupported, "more than a store's entry can say"));
}

}  // namespace
}  // namespace picchio
