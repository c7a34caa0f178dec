#include "apps/verify/check_store.h"

#include <cstring>
#include <random>

#include "apps/diff/diff.h"
#include "apps/pack/pack.h"
#include "apps/pack/store_test_support.h"
#include "apps/verify/repair_store.h"
#include "apps/verify/verify.h"

namespace picchio {
namespace {

// A model with both forms of its experts and, apart from it, a store.
class StoreTools : public testing::TestWithParam<RecordVersion> {
 protected:
  void SetUp() override {
    MakeModel("gpt_oss_long", PayloadKind::kInt4, model_);
    ASSERT_OK(Pack(model_, {.output = store_, .version = GetParam()}, 2, kNoStop));
    whole_ = ReadAll(store_);
    ASSERT_OK_AND_ASSIGN(const File file, File::OpenForRead(store_));
    const auto index = FlatIndex::Read(file);
    ASSERT_OK(index);
    records_ = RecordsOf(*index);
    for (const RecordPlace& place : records_) {
      entries_.push_back(*index->Find(place.layer, place.expert));
    }
    ASSERT_GT(records_.size(), 8u);
    // Padding there must be, or nothing would be known of it.
    ASSERT_GT(entries_[0].padded_bytes, entries_[0].bytes);
  }

  Status Verify(const Path& store) const {
    const auto checked = CheckStore(store, 2, kNoStop);
    return checked.has_value() ? FirstFault(*checked, PathText(store)) : checked.error();
  }

  std::string Flipped(size_t at) const {
    std::string spoilt = whole_;
    spoilt[at] ^= 0x10;
    return spoilt;
  }

  TemporaryFolder folder_;
  const Path model_ = folder_ / "model";
  const Path store_ = folder_ / "a store";
  std::string whole_;
  std::vector<RecordPlace> records_;
  std::vector<FlatEntry> entries_;
};

INSTANTIATE_TEST_SUITE_P(Versions, StoreTools,
                         testing::Values(RecordVersion::kV2, RecordVersion::kV3),
                         [](const auto& test) {
                           return test.param == RecordVersion::kV2 ? "v2" : "v3";
                         });

// Superblock, index, records and padding: there is no byte that may be another.
TEST_P(StoreTools, EveryFlippedBitIsFound) {
  EXPECT_OK(Verify(store_));
  std::mt19937 random(3);
  std::vector<size_t> places = {0, 8, 12, 64, 4095, whole_.size() - 1};
  for (const FlatEntry& entry : {entries_.front(), entries_[3], entries_.back()}) {
    for (const uint64_t at : {uint64_t{0}, uint64_t{entry.bytes} - 1, uint64_t{entry.bytes},
                              uint64_t{entry.padded_bytes} - 1}) {
      places.push_back(entry.offset + at);
    }
  }
  for (int i = 0; i < 60; ++i) places.push_back(random() % whole_.size());
  for (const size_t at : places) {
    WriteAll(store_, Flipped(at));
    EXPECT_FALSE(Verify(store_).ok()) << at;
  }
  for (const std::string& other :
       {whole_.substr(0, whole_.size() - 4096), whole_ + std::string(1, 0), whole_.substr(0, 100),
        std::string()}) {
    WriteAll(store_, other);
    EXPECT_FALSE(Verify(store_).ok()) << other.size();
  }
}

TEST_P(StoreTools, NamesTheFirstFaultAndCountsTheOthers) {
  std::string spoilt = whole_;
  for (const size_t i : {size_t{5}, size_t{2}, size_t{7}}) spoilt[entries_[i].offset + 9] ^= 1;
  WriteAll(store_, spoilt);
  const Status status = Verify(store_);
  EXPECT_THAT(status, Fails(Code::kCorrupt, fmt::format("layer {} expert {}: ", records_[2].layer,
                                                        records_[2].expert)));
  EXPECT_THAT(status, Fails(Code::kCorrupt, fmt::format("at byte {}", entries_[2].offset)));
  EXPECT_THAT(status, Fails(Code::kCorrupt, "(2 more faults)"));
  WriteAll(store_, Flipped(entries_[1].offset + entries_[1].bytes));
  EXPECT_THAT(Verify(store_), Fails(Code::kCorrupt, "padding is 0x10, expected 0"));
  const std::atomic<bool> stop{true};
  EXPECT_THAT(CheckStore(store_, 2, stop), Fails(Code::kCancelled, "stopped"));
}

TEST_P(StoreTools, RepairWritesTheDamagedRecordsAndNoOthers) {
  std::string spoilt = whole_;
  std::mt19937 random(7);
  // A third of them: a bit, all of it gone (a hole), the padding.
  size_t damaged = 0;
  for (size_t i = 0; i < entries_.size(); i += 3, ++damaged) {
    const FlatEntry& entry = entries_[i];
    switch (i % 9) {
      case 0:
        spoilt[entry.offset + random() % entry.bytes] ^= 0x40;
        break;
      case 3:
        spoilt.replace(entry.offset, entry.padded_bytes, entry.padded_bytes, '\0');
        break;
      default:
        spoilt[entry.offset + entry.padded_bytes - 1] = 1;
    }
  }
  WriteAll(store_, spoilt);
  ASSERT_OK_AND_ASSIGN(const RepairReport report, RepairStore(store_, model_, 2, kNoStop));
  EXPECT_EQ(report.num_repaired, damaged);
  EXPECT_EQ(report.num_records, entries_.size());
  EXPECT_TRUE(ReadAll(store_) == whole_);
  ASSERT_OK_AND_ASSIGN(const RepairReport again, RepairStore(store_, model_, 2, kNoStop));
  EXPECT_EQ(again.num_repaired, 0u);
}

// The container is no better than the store: what it cannot prove it does not write.
TEST_P(StoreTools, RepairTakesNothingElseFromTheContainer) {
  ASSERT_OK_AND_ASSIGN(const ModelFolder model, OpenModelFolder(model_));
  const std::string tensor = fmt::format("model.layers.{}.mlp.experts.down_proj.{}",
                                         records_[4].layer, records_[4].expert);
  const TensorEntry* found = model.tensors.Find(tensor);
  ASSERT_NE(found, nullptr);
  const Path container = model_ / model.tensors.file_name(found->file_idx);
  std::string bytes = ReadAll(container);
  bytes[found->offset + 3] ^= 2;
  WriteAll(container, bytes);

  std::string spoilt = whole_;
  spoilt[entries_[4].offset] ^= 1;
  spoilt[entries_[6].offset] ^= 1;
  WriteAll(store_, spoilt);
  EXPECT_THAT(RepairStore(store_, model_, 2, kNoStop),
              Fails(Code::kCorrupt, "other bytes than the store was packed from"));
  spoilt[entries_[6].offset] ^= 1;  // That one could be repaired, and was.
  EXPECT_TRUE(ReadAll(store_) == spoilt);

  // And says so where there is nothing to repair from, or nothing to go by.
  WriteAll(store_, Flipped(70));
  EXPECT_THAT(RepairStore(store_, model_, 2, kNoStop),
              Fails(Code::kCorrupt, "only records can be repaired"));
  WriteAll(store_, Flipped(entries_[0].offset));
  ASSERT_OK(Convert(FixtureCheckpoint("gpt_oss_long"), folder_ / "alone",
                    {.experts = PayloadKind::kInt4}, 2, kNoStop));
  EXPECT_THAT(RepairStore(store_, folder_ / "alone", 2, kNoStop),
              Fails(Code::kUnsupported, "no experts as safetensors"));
  ASSERT_OK_AND_ASSIGN(const FolderLock lock, FolderLock::Take(folder_.path()));
  EXPECT_THAT(RepairStore(store_, model_, 2, kNoStop), Fails(Code::kUnavailable, "another"));
}

TEST_P(StoreTools, DiffNamesTheFirstDifference) {
  ASSERT_OK_AND_ASSIGN(const DiffReport same, DiffStore(store_, model_, 2, kNoStop));
  EXPECT_EQ(same.num_records, records_.size());
  EXPECT_EQ(same.num_all_records, records_.size());
  EXPECT_FALSE(same.by_hash);

  std::string spoilt = whole_;
  spoilt[entries_[7].offset] ^= 1;
  spoilt[entries_[5].offset + 2] ^= 1;
  WriteAll(store_, spoilt);
  const Result<DiffReport> differs = DiffStore(store_, model_, 2, kNoStop);
  EXPECT_THAT(differs,
              Fails(Code::kCorrupt,
                    fmt::format("layer {} expert {}: byte {} of the store is {:#04x}",
                                records_[5].layer, records_[5].expert, entries_[5].offset + 2,
                                static_cast<uint8_t>(spoilt[entries_[5].offset + 2]))));
  EXPECT_THAT(differs, Fails(Code::kCorrupt,
                             fmt::format("byte 2 of tensor \"model.layers.{}.mlp.experts."
                                         "gate_up_proj.{}\" is {:#04x}",
                                         records_[5].layer, records_[5].expert,
                                         static_cast<uint8_t>(whole_[entries_[5].offset + 2]))));

  // Another model of the same kind.
  WriteAll(store_, whole_);
  MakeModel("gpt_oss_tiny", PayloadKind::kInt4, folder_ / "other");
  EXPECT_THAT(DiffStore(store_, folder_ / "other", 2, kNoStop),
              Fails(Code::kCorrupt, "another model"));
}

// Where the store is all that there is, the manifest's hashes of the tensors are what it must have.
TEST_P(StoreTools, DiffByTheManifest) {
  const Path alone = folder_ / "alone";
  ASSERT_OK(Convert(FixtureCheckpoint("gpt_oss_long"), alone, {.experts = PayloadKind::kInt4}, 2,
                    kNoStop));
  ASSERT_OK_AND_ASSIGN(const DiffReport same, DiffStore(store_, alone, 2, kNoStop));
  EXPECT_TRUE(same.by_hash);
  WriteAll(store_, Flipped(entries_[5].offset + 2));
  EXPECT_THAT(DiffStore(store_, alone, 2, kNoStop),
              Fails(Code::kCorrupt, fmt::format("tensor \"model.layers.{}.mlp.experts."
                                                "gate_up_proj.{}\" has the SHA-256",
                                                records_[5].layer, records_[5].expert)));
}

// --- Models with stores ---

TEST(VerifyModelWithStore, FindsAFlippedBitInTheStore) {
  for (const bool keep : {false, true}) {
    TemporaryFolder folder;
    const Path model = folder / "model";
    ConversionOptions options;
    options.keep_safetensors = keep;
    ASSERT_OK(Convert(FixtureCheckpoint("qwen3_moe_long"), model, options, 2, kNoStop));
    ASSERT_OK_AND_ASSIGN(const VerifyReport report, VerifyModel(model, 2, kNoStop));
    EXPECT_EQ(report.num_stores, 1u);
    const Path store = model / "experts.picchioflat";
    const std::string whole = ReadAll(store);
    std::mt19937 random(1);
    for (int i = 0; i < 50; ++i) {
      std::string spoilt = whole;
      const size_t at = random() % spoilt.size();
      spoilt[at] ^= 8;
      WriteAll(store, spoilt);
      EXPECT_FALSE(VerifyModel(model, 2, kNoStop).has_value()) << at;
    }
    std::filesystem::remove(store);
    if (keep) {
      ASSERT_OK_AND_ASSIGN(const VerifyReport without, VerifyModel(model, 2, kNoStop));
      EXPECT_THAT(without.absent_stores, testing::ElementsAre("experts.picchioflat"));
    } else {
      EXPECT_THAT(VerifyModel(model, 2, kNoStop), Fails(Code::kNotFound, "experts.picchioflat"));
    }
  }
}

// Whole in itself, and nevertheless not what the manifest lists.
TEST(VerifyModelWithStore, AnotherStoreIsAFault) {
  TemporaryFolder folder;
  const Path model = folder / "model";
  MakeModel("qwen3_moe_long", std::nullopt, model);
  ASSERT_OK(Pack(model, {.output = folder / "v3", .version = RecordVersion::kV3}, 2, kNoStop));
  WriteAll(model / "experts.picchioflat", ReadAll(folder / "v3"));
  EXPECT_THAT(VerifyModel(model, 2, kNoStop), Fails(Code::kCorrupt, "the manifest lists"));
}

}  // namespace
}  // namespace picchio
