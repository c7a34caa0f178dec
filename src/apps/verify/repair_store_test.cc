#include "apps/verify/repair_store.h"

#include <random>

#include "apps/convert/convert.h"
#include "apps/verify/stores_test_support.h"

namespace picchio {
namespace {

using RepairedStores = StoreTools;
INSTANTIATE_TEST_SUITE_P(Versions, RepairedStores,
                         testing::Values(RecordVersion::kV2, RecordVersion::kV3), VersionName);

TEST_P(RepairedStores, RepairWritesTheDamagedRecordsAndNoOthers) {
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
  ASSERT_OK_AND_ASSIGN(const RepairReport report, RepairStore(store_, model_, 2, kGoOn));
  EXPECT_EQ(report.num_repaired, damaged);
  EXPECT_EQ(report.num_records, entries_.size());
  EXPECT_TRUE(ReadAll(store_) == whole_);
  ASSERT_OK_AND_ASSIGN(const RepairReport again, RepairStore(store_, model_, 2, kGoOn));
  EXPECT_EQ(again.num_repaired, 0u);
}

// The container is no better than the store: what it cannot prove it does not write.
TEST_P(RepairedStores, RepairTakesNothingElseFromTheContainer) {
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
  EXPECT_THAT(RepairStore(store_, model_, 2, kGoOn),
              Fails(Code::kCorrupt, "other bytes than the store was packed from"));
  spoilt[entries_[6].offset] ^= 1;  // That one could be repaired, and was.
  EXPECT_TRUE(ReadAll(store_) == spoilt);

  // And says so where there is nothing to repair from, or nothing to go by.
  WriteAll(store_, Flipped(70));
  EXPECT_THAT(RepairStore(store_, model_, 2, kGoOn),
              Fails(Code::kCorrupt, "only records can be repaired: run picchio pack "));
  WriteAll(store_, Flipped(entries_[0].offset));
  ASSERT_OK(Convert(FixtureCheckpoint("gpt_oss_long"), folder_ / "alone",
                    {.experts = PayloadKind::kInt4}, 2, kGoOn));
  EXPECT_THAT(RepairStore(store_, folder_ / "alone", 2, kGoOn),
              Fails(Code::kUnsupported, "no experts as safetensors"));
  ASSERT_OK_AND_ASSIGN(const FolderLock lock, FolderLock::Take(folder_.path()));
  EXPECT_THAT(RepairStore(store_, model_, 2, kGoOn), Fails(Code::kUnavailable, "another"));
}

// A write that ended half-way, as by a kill: the record is still damaged, and the next run mends
// it.
TEST_P(RepairedStores, AHalfWrittenRecordIsMendedByTheNextRun) {
  std::string spoilt = whole_;
  const FlatEntry& entry = entries_[3];
  spoilt.replace(entry.offset + entry.bytes / 2, entry.bytes / 4, entry.bytes / 4, '\x5a');
  WriteAll(store_, spoilt);
  ASSERT_OK_AND_ASSIGN(const RepairReport report, RepairStore(store_, model_, 2, kGoOn));
  EXPECT_EQ(report.num_repaired, 1u);
  EXPECT_TRUE(ReadAll(store_) == whole_);
  const std::atomic<bool> stop{true};
  WriteAll(store_, spoilt);
  EXPECT_THAT(RepairStore(store_, model_, 2, stop), Fails(Code::kCancelled, "stopped"));
  EXPECT_TRUE(ReadAll(store_) == spoilt);
}

// What a second pack or repair is about to write, or has put in the store's place, is not written.
TEST_P(RepairedStores, RepairWritesToTheStoreThatItChecked) {
  WriteAll(store_, Flipped(entries_[3].offset));
  // A link from elsewhere: the folder's lock is another one, and the file's own counts.
  std::filesystem::create_directory(folder_ / "beside");
  std::filesystem::create_symlink(store_, folder_ / "beside" / "link");
  {
    ASSERT_OK_AND_ASSIGN(const File other, File::OpenForRead(store_));
    ASSERT_OK_AND_ASSIGN(const bool locked, other.TryLock());
    ASSERT_TRUE(locked);
    EXPECT_THAT(RepairStore(folder_ / "beside" / "link", model_, 2, kGoOn),
                Fails(Code::kUnavailable, "another picchio"));
    // And while one is mended, no pack takes its place.
    EXPECT_THAT(Pack(model_, {.output = store_, .version = GetParam()}, 2, kGoOn),
                Fails(Code::kUnavailable, "another picchio is mending"));
    EXPECT_TRUE(ReadAll(store_) == Flipped(entries_[3].offset));
  }
  ASSERT_OK_AND_ASSIGN(const RepairReport report,
                       RepairStore(folder_ / "beside" / "link", model_, 2, kGoOn));
  EXPECT_EQ(report.num_repaired, 1u);
  EXPECT_TRUE(ReadAll(store_) == whole_);
  // Nothing is made where nothing is.
  EXPECT_THAT(RepairStore(folder_ / "none", model_, 2, kGoOn), Fails(Code::kNotFound, "none"));
  EXPECT_FALSE(SomethingExists(folder_ / "none"));
}

// The whole store is put in its place, by a rename, while it is checked: before the first write.
TEST_P(RepairedStores, AStoreThatIsReplacedMeanwhileIsLeftAlone) {
  WriteAll(store_, Flipped(entries_[3].offset));
  WriteAll(folder_ / "new", whole_);
  ASSERT_OK_AND_ASSIGN(File file, File::OpenForUpdate(store_));
  std::filesystem::rename(folder_ / "new", store_);
  EXPECT_THAT(RepairStore(file, store_, model_, 2, kGoOn),
              Fails(Code::kUnavailable, "was replaced while it was checked"));
  EXPECT_TRUE(ReadAll(store_) == whole_);
}

// The dense image cannot be mended; the records beside it can.
TEST(RepairStore, MendsRecordsBesideADamagedDenseImage) {
  TemporaryFolder folder;
  const Path model = folder / "model";
  MakeModel("gpt_oss_long", PayloadKind::kInt4, model);
  TestStore made = StoreWriter(model).Make(3);
  made.dense = std::string(5000, 'd');
  const std::string whole = made.Bytes();
  const Path store = folder / "store";
  std::string spoilt = whole;
  ASSERT_OK_AND_ASSIGN(const FlatIndex index,
                       FlatIndex::Read(MemoryFile("store", std::as_bytes(std::span(whole)))));
  const RecordPlace place = RecordsOf(index)[2];
  const uint64_t record = index.Find(place.layer, place.expert)->offset;
  const uint64_t dense = index.superblock().dense_offset;
  ASSERT_GT(dense, record);
  spoilt[record] ^= 1;
  spoilt[dense + 17] ^= 1;
  WriteAll(store, spoilt);
  EXPECT_THAT(RepairStore(store, model, 2, kGoOn), Fails(Code::kCorrupt, "the dense image"));
  spoilt[record] ^= 1;
  EXPECT_TRUE(ReadAll(store) == spoilt);
  EXPECT_THAT(RepairStore(store, model, 2, kGoOn),
              Fails(Code::kCorrupt, "only records can be repaired"));
}

// What a user is told to run can be run: it depends on whether the experts are anywhere else.
TEST_P(RepairedStores, TheRemedyIsOneThatThereIs) {
  EXPECT_EQ(
      StoreRemedy(store_, model_, true),
      fmt::format("run picchio verify {} --repair --model {}", store_.string(), model_.string()));
  EXPECT_EQ(StoreRemedy(store_, model_, false),
            fmt::format("run picchio pack {} -o {}", model_.string(), store_.string()));
  const Path alone = folder_ / "alone";
  ASSERT_OK(
      Convert(FixtureCheckpoint("gpt_oss_long"), alone, {.experts = PayloadKind::kInt4}, 2, kGoOn));
  for (const bool only_records : {false, true}) {
    EXPECT_THAT(StoreRemedy(alone / "experts.picchioflat", alone, only_records),
                testing::EndsWith("copy it again, or convert the checkpoint again"));
    EXPECT_THAT(StoreRemedy(store_, folder_.path(), only_records),
                testing::StartsWith("copy it again, or "));
  }
}

}  // namespace
}  // namespace picchio
