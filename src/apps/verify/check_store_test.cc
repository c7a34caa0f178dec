#include "apps/verify/check_store.h"

#include <random>

#include "apps/diff/diff.h"
#include "apps/verify/stores_test_support.h"
#include "apps/verify/verify.h"

namespace picchio {
namespace {

using CheckedStores = StoreTools;
INSTANTIATE_TEST_SUITE_P(Versions, CheckedStores,
                         testing::Values(RecordVersion::kV2, RecordVersion::kV3), VersionName);

// Superblock, index, records and padding: there is no byte that may be another.
TEST_P(CheckedStores, EveryFlippedBitIsFound) {
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

TEST_P(CheckedStores, NamesTheFirstFaultAndCountsTheOthers) {
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

TEST_P(CheckedStores, DiffNamesTheFirstDifference) {
  ASSERT_OK_AND_ASSIGN(const DiffReport same, DiffStore(store_, model_, 2, kGoOn));
  EXPECT_EQ(same.num_records, records_.size());
  EXPECT_EQ(same.num_all_records, records_.size());
  EXPECT_FALSE(same.by_hash);

  std::string spoilt = whole_;
  spoilt[entries_[7].offset] ^= 1;
  spoilt[entries_[5].offset + 2] ^= 1;
  WriteAll(store_, spoilt);
  const Result<DiffReport> differs = DiffStore(store_, model_, 2, kGoOn);
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
  EXPECT_THAT(DiffStore(store_, folder_ / "other", 2, kGoOn),
              Fails(Code::kCorrupt, "another model"));
}

// Where the store is all that there is, the manifest's hashes of the tensors are what it must have.
TEST_P(CheckedStores, DiffByTheManifest) {
  const Path alone = folder_ / "alone";
  ASSERT_OK(
      Convert(FixtureCheckpoint("gpt_oss_long"), alone, {.experts = PayloadKind::kInt4}, 2, kGoOn));
  ASSERT_OK_AND_ASSIGN(const DiffReport same, DiffStore(store_, alone, 2, kGoOn));
  EXPECT_TRUE(same.by_hash);
  WriteAll(store_, Flipped(entries_[5].offset + 2));
  EXPECT_THAT(DiffStore(store_, alone, 2, kGoOn),
              Fails(Code::kCorrupt, fmt::format("tensor \"model.layers.{}.mlp.experts."
                                                "gate_up_proj.{}\" has the SHA-256",
                                                records_[5].layer, records_[5].expert)));
}

// The bytes that no hash of the manifest's covers, one after the other: biases, the gaps between
// parts and the padding behind them.
TEST_P(CheckedStores, DiffByTheManifestComparesWhatIsNoTensor) {
  const Path alone = folder_ / "alone";
  ASSERT_OK(
      Convert(FixtureCheckpoint("gpt_oss_long"), alone, {.experts = PayloadKind::kInt4}, 2, kGoOn));
  ASSERT_OK_AND_ASSIGN(const File file, File::OpenForRead(store_));
  ASSERT_OK_AND_ASSIGN(const FlatIndex index, FlatIndex::Read(file));
  const ExpertRecordLayout& layout = index.layout();
  EXPECT_EQ(index.superblock().has_biases, GetParam() == RecordVersion::kV3);
  const FlatEntry& entry = entries_[5];
  std::vector<uint64_t> places = {entry.bytes, entry.padded_bytes - uint64_t{1}};
  uint64_t end = 0;
  for (const RecordPart& part : {layout.gate_up, layout.gate_up_scales, layout.down,
                                 layout.down_scales, layout.gate_up_bias, layout.down_bias}) {
    if (part.bytes == 0) continue;
    for (uint64_t at = end; at < part.offset; ++at) places.push_back(at);
    end = part.offset + part.bytes;
  }
  for (const RecordPart& bias : {layout.gate_up_bias, layout.down_bias}) {
    if (bias.bytes == 0) continue;
    places.push_back(bias.offset);
    places.push_back(bias.offset + bias.bytes - 1);
  }
  for (const uint64_t at : places) {
    WriteAll(store_, Flipped(entry.offset + at));
    EXPECT_THAT(DiffStore(store_, alone, 2, kGoOn),
                Fails(Code::kCorrupt,
                      fmt::format("layer {} expert {}: byte {} of the store", records_[5].layer,
                                  records_[5].expert, entry.offset + at)));
  }
  if (GetParam() == RecordVersion::kV3) {
    WriteAll(store_, Flipped(entry.offset + layout.down_bias.offset));
    EXPECT_THAT(DiffStore(store_, alone, 2, kGoOn), Fails(Code::kCorrupt, "down_proj_bias"));
  }
}

// --- Models with stores ---

TEST(VerifyModelWithStore, FindsAFlippedBitInTheStore) {
  for (const bool keep : {false, true}) {
    TemporaryFolder folder;
    const Path model = folder / "model";
    ConversionOptions options;
    options.keep_safetensors = keep;
    ASSERT_OK(Convert(FixtureCheckpoint("qwen3_moe_long"), model, options, 2, kGoOn));
    ASSERT_OK_AND_ASSIGN(const VerifyReport report, VerifyModel(model, 2, kGoOn));
    EXPECT_EQ(report.num_stores, 1u);
    const Path store = model / "experts.picchioflat";
    const std::string whole = ReadAll(store);
    std::mt19937 random(1);
    for (int i = 0; i < 50; ++i) {
      std::string spoilt = whole;
      const size_t at = random() % spoilt.size();
      spoilt[at] ^= 8;
      WriteAll(store, spoilt);
      EXPECT_FALSE(VerifyModel(model, 2, kGoOn).has_value()) << at;
    }
    std::filesystem::remove(store);
    if (keep) {
      ASSERT_OK_AND_ASSIGN(const VerifyReport without, VerifyModel(model, 2, kGoOn));
      EXPECT_THAT(without.absent_stores, testing::ElementsAre("experts.picchioflat"));
    } else {
      EXPECT_THAT(VerifyModel(model, 2, kGoOn), Fails(Code::kNotFound, "experts.picchioflat"));
    }
  }
}

// Every byte of the first block: those of version 2 that no hash covers, as the experts per token,
// are the config's or zero.
TEST(VerifyModelWithStore, FindsEveryFlippedByteOfTheFirstBlock) {
  for (const RecordVersion version : {RecordVersion::kV2, RecordVersion::kV3}) {
    TemporaryFolder folder;
    const Path model = folder / "model";
    MakeModel("qwen3_moe_long", std::nullopt, model);
    ASSERT_OK(Pack(model, {.version = version}, 2, kGoOn));
    ASSERT_OK(VerifyModel(model, 2, kGoOn));
    ASSERT_OK_AND_ASSIGN(const Manifest manifest, LoadManifest(model));
    ASSERT_OK_AND_ASSIGN(const FlatModel flat_model, ReadFlatModel(model, manifest));
    const Path store = model / "experts.picchioflat";
    const std::string whole = ReadAll(store);
    const auto accepted = [&](const std::string& bytes) {
      const auto index = FlatIndex::Read(MemoryFile("store", std::as_bytes(std::span(bytes))));
      return index.has_value() && CheckFlatModel(*index, flat_model, false, "store").ok();
    };
    ASSERT_TRUE(accepted(whole));
    std::string spoilt = whole;
    for (size_t at = 0; at < 4096; ++at) {
      spoilt[at] = static_cast<char>(~spoilt[at]);
      EXPECT_FALSE(accepted(spoilt)) << at;
      spoilt[at] = static_cast<char>(spoilt[at] ^ 0xfe);  // Its lowest bit alone.
      EXPECT_FALSE(accepted(spoilt)) << at;
      spoilt[at] = whole[at];
    }
    // The command's own way, for the fields.
    for (size_t at = 0; at < 96; ++at) {
      WriteAll(store,
               spoilt.substr(0, at) + static_cast<char>(whole[at] ^ 1) + spoilt.substr(at + 1));
      EXPECT_FALSE(VerifyModel(model, 2, kGoOn).has_value()) << at;
      const auto checked = CheckStore(store, 2, kGoOn);
      if (!checked.has_value() || !FirstFault(*checked, "store").ok()) continue;
      const auto of_model = IsStoreOfModel(checked->index, model, "store");
      EXPECT_FALSE(of_model.has_value() && *of_model) << at;
    }
  }
}

// The fields that only the config knows: what the fault is called.
TEST(VerifyModelWithStore, NamesTheFieldThatTheConfigContradicts) {
  TemporaryFolder folder;
  const Path model = folder / "model";
  MakeModel("qwen3_moe_long", std::nullopt, model);
  std::string spoilt = ReadAll(model / "experts.picchioflat");
  spoilt[28] ^= 1;  // topk
  WriteAll(model / "experts.picchioflat", spoilt);
  EXPECT_THAT(VerifyModel(model, 2, kGoOn), Fails(Code::kCorrupt, "topk is"));
  ASSERT_OK_AND_ASSIGN(const auto checked, CheckStore(model / "experts.picchioflat", 2, kGoOn));
  EXPECT_OK(FirstFault(checked, "store"));
  EXPECT_THAT(IsStoreOfModel(checked.index, model, "store"), Fails(Code::kCorrupt, "topk is"));
  MakeModel("gpt_oss_long", std::nullopt, folder / "other");
  ASSERT_OK_AND_ASSIGN(const bool of_other,
                       IsStoreOfModel(checked.index, folder / "other", "store"));
  EXPECT_FALSE(of_other);
}

// Whole in itself, and nevertheless not what the manifest lists.
TEST(VerifyModelWithStore, AnotherStoreIsAFault) {
  TemporaryFolder folder;
  const Path model = folder / "model";
  MakeModel("qwen3_moe_long", std::nullopt, model);
  ASSERT_OK(Pack(model, {.output = folder / "v3", .version = RecordVersion::kV3}, 2, kGoOn));
  WriteAll(model / "experts.picchioflat", ReadAll(folder / "v3"));
  EXPECT_THAT(VerifyModel(model, 2, kGoOn), Fails(Code::kCorrupt, "the manifest lists"));
}

}  // namespace
}  // namespace picchio
