#include "apps/run/expert_storage.h"

#include <filesystem>
#include <vector>

#include "apps/pack/store_test_support.h"
#include "apps/run/scored_test_support.h"
#include "apps/run/store_models_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

constexpr const char* kStoreName = "experts.picchioflat";

void ConvertFixture(const char* fixture, PayloadKind kind, const Path& folder) {
  MakeModelWithoutStore(fixture, kind, folder);
}

// The same bits, from the store unless it says otherwise.
void ExpectSame(const Scored& ran, const Scored& reference) {
  EXPECT_TRUE(ran.SameBits(reference));
  EXPECT_EQ(ran.engine->store_refusal(), "");
  ASSERT_EQ(ran.engine->tiers().size(), 2u);
  EXPECT_GT(ran.engine->tiers()[0].served, 0u);
}

struct ModelCase {
  const char* fixture;
  PayloadKind kind;
};

class StoredModels : public testing::TestWithParam<ModelCase> {};

TEST_P(StoredModels, LogitsAreTheSameBitsWhereverExpertsComeFrom) {
  TemporaryFolder temporary;
  const Path folder = temporary / "model";
  ConvertFixture(GetParam().fixture, GetParam().kind, folder);
  const Scored reference(folder);
  ASSERT_EQ(reference.engine->tiers().size(), 1u);
  const StoreWriter writer(folder);
  for (const uint32_t version : {2u, 3u}) {
    if (version == 2 && GetParam().kind != PayloadKind::kInt4) continue;
    const TestStore store = writer.Make(version);
    std::string bytes = store.Bytes();
    WriteAll(folder / kStoreName, bytes);
    if (version == 2) ListStore(folder, kStoreName, bytes);
    for (const bool verify : {false, true}) {
      const Scored whole(folder, {.flat_verify = verify});
      ExpectSame(whole, reference);
      EXPECT_EQ(whole.engine->tiers()[0].failed, 0u);
      EXPECT_EQ(whole.engine->tiers()[1].served, 0u);
      EXPECT_THAT(whole.notices, testing::IsEmpty());
    }

    DamageEveryThirdRecord(store, bytes);
    WriteAll(folder / kStoreName, bytes);
    const Scored damaged(folder, {.flat_verify = version == 2});
    ExpectSame(damaged, reference);
    EXPECT_GT(damaged.engine->tiers()[0].failed, 0u);
    EXPECT_EQ(damaged.engine->tiers()[1].served, damaged.engine->tiers()[0].failed);
    ASSERT_EQ(damaged.notices.size(), 1u);
    EXPECT_THAT(damaged.notices[0], testing::HasSubstr("expected"));

    TestStore partial = store;
    const uint32_t first = partial.records.begin()->first.first;
    std::erase_if(partial.records, [&](const auto& entry) { return entry.first.first > first; });
    bytes = partial.Bytes();
    WriteAll(folder / kStoreName, bytes);
    const Scored one_layer(folder, {.flat_trust = true});
    ExpectSame(one_layer, reference);
    EXPECT_GT(one_layer.engine->tiers()[1].served, 0u);
    ASSERT_EQ(one_layer.notices.size(), 1u);
    EXPECT_THAT(one_layer.notices[0], testing::HasSubstr("no such expert"));
  }
}

std::string CaseName(const testing::TestParamInfo<ModelCase>& tested) {
  const char* const kinds[] = {"Int4", "Mxfp4", "Bf16"};
  return fmt::format("{}_{}", tested.param.fixture, kinds[static_cast<size_t>(tested.param.kind)]);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, StoredModels,
                         testing::Values(ModelCase{"qwen3_moe_tiny", PayloadKind::kInt4},
                                         ModelCase{"qwen3_moe_tiny_dense", PayloadKind::kInt4},
                                         ModelCase{"qwen3_moe_tiny", PayloadKind::kBf16},
                                         ModelCase{"gpt_oss_tiny", PayloadKind::kInt4},
                                         ModelCase{"gpt_oss_tiny", PayloadKind::kMxfp4},
                                         ModelCase{"gpt_oss_tiny", PayloadKind::kBf16}),
                         CaseName);

class ExpertStorageTest : public testing::Test {
 protected:
  void SetUp() override {
    ConvertFixture("qwen3_moe_tiny", PayloadKind::kInt4, folder());
    model_ = OpenModelFolder(folder()).value();
  }

  Path folder() const { return temporary_ / "model"; }

  void WriteStore(const std::string& bytes) { WriteAll(folder() / kStoreName, bytes); }

  Result<ExpertStorage> Open(const StorageOptions& options = {}) {
    notices_.clear();
    return OpenExpertStorage(*model_, options,
                             [this](std::string_view said) { notices_.emplace_back(said); });
  }

  // The store is there, is refused with these words, and the container serves.
  void ExpectRefused(const std::string& words, const StorageOptions& options = {}) {
    ASSERT_OK_AND_ASSIGN(const ExpertStorage storage, Open(options));
    EXPECT_THAT(storage.refusal, testing::HasSubstr(words));
    EXPECT_EQ(storage.source->tier_stats().size(), 1u);
    ASSERT_EQ(notices_.size(), 1u);
    EXPECT_THAT(notices_[0], testing::HasSubstr(storage.refusal));
    EXPECT_THAT(notices_[0], testing::HasSubstr("picchio pack "));
  }

  TemporaryFolder temporary_;
  std::optional<ModelFolder> model_;
  std::vector<std::string> notices_;
};

TEST_F(ExpertStorageTest, FindsTheStoreOrIsToldOf) {
  const std::string bytes = StoreWriter(folder()).Make(3).Bytes();
  WriteAll(temporary_ / "elsewhere", bytes);
  ASSERT_OK_AND_ASSIGN(ExpertStorage storage, Open());
  EXPECT_EQ(storage.source->tier_stats().size(), 1u);
  EXPECT_EQ(storage.refusal, "");

  ASSERT_OK_AND_ASSIGN(storage, Open({.flat = temporary_ / "elsewhere"}));
  ASSERT_EQ(storage.source->tier_stats().size(), 2u);
  EXPECT_THAT(storage.source->tier_stats()[0].name, testing::HasSubstr("elsewhere"));

  WriteStore(bytes);
  ASSERT_OK_AND_ASSIGN(storage, Open());
  EXPECT_THAT(storage.source->tier_stats()[0].name, testing::HasSubstr(kStoreName));
  ASSERT_OK_AND_ASSIGN(storage, Open({.flat_off = true}));
  EXPECT_EQ(storage.source->tier_stats().size(), 1u);
  EXPECT_THAT(notices_, testing::IsEmpty());

  EXPECT_THAT(Open({.flat = temporary_ / "nowhere"}),
              Fails(Code::kNotFound, "nowhere: run picchio pack "));
}

TEST_F(ExpertStorageTest, RefusesWhatIsNotThisModelsStore) {
  const StoreWriter writer(folder());
  TestStore store = writer.Make(3);
  const std::string whole = store.Bytes();
  WriteStore("not a store");
  ExpectRefused("has 11 bytes");
  WriteStore(whole.substr(0, whole.size() - 4096));
  ExpectRefused("cut short");
  store.fields[8] = TestStore::Number(4, 4);
  WriteStore(store.Bytes());
  ExpectRefused("version 4, this program reads 2 and 3");
  store = writer.Make(3);
  store.model_id[0] ^= 1;
  WriteStore(store.Bytes());
  ExpectRefused("another conversion");
  ExpectRefused("another conversion", {.flat_trust = true});
  store = writer.Make(3);
  ++store.topk;
  WriteStore(store.Bytes());
  ExpectRefused("another model: topk");

  TemporaryFolder other;
  ConvertFixture("qwen3_moe_tiny", PayloadKind::kBf16, other / "model");
  store = StoreWriter(other / "model").Make(3);
  store.model_id = writer.Make(3).model_id;
  WriteStore(store.Bytes());
  ExpectRefused("another quantisation: it holds BF16, the model INT4");
}

// One byte in each of a layer's experts: both what the store holds and what the container does.
TEST_F(ExpertStorageTest, WhatReplacesADamagedRecordIsHeldAgainstTheStoresIndex) {
  const std::vector<int32_t> ids = {1, 5, 9};
  const auto damage_container = [&](char mask) {
    for (size_t i = 0; i < model_->tensors.num_files(); ++i) {
      const Path path = folder() / model_->tensors.file_name(i);
      if (!IsExpertContainer(path.filename().string())) continue;
      std::string bytes = ReadAll(path);
      // The last bytes are an expert's; every 1000th from the middle on hits all of them.
      for (size_t at = bytes.size() / 2; at < bytes.size(); at += 1000) bytes[at] ^= mask;
      WriteAll(path, bytes);
    }
  };
  for (const uint32_t version : {2U, 3U}) {
    const TestStore store = StoreWriter(folder()).Make(version);
    std::string bytes = store.Bytes();
    DamageEveryThirdRecord(store, bytes);
    WriteStore(bytes);
    damage_container(0x10);
    for (const bool verify : {false, true}) {
      EngineOptions options =
          Scored::Options({.flat_verify = verify, .flat_trust = true, .io = IoKind::kBuffered}, 1);
      ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Open(folder(), options));
      ASSERT_OK_AND_ASSIGN(Session session, engine->NewSession());
      const Status status =
          session.Score(ids, 0, [](uint32_t, std::span<const float>) {}, {}).status();
      // A store of version 2 has nothing that is checked without being asked for.
      if (version == 2 && !verify) continue;
      EXPECT_THAT(status, Fails(Code::kCorrupt, "no source could serve it: "));
      EXPECT_THAT(status.message(), testing::HasSubstr(", joined from "));
    }
    damage_container(0x10);
  }
}

TEST_F(ExpertStorageTest, TakesAStoreOfVersion2OnlyIfItIsListedOrTrusted) {
  const std::string bytes = StoreWriter(folder()).Make(2).Bytes();
  WriteStore(bytes);
  ExpectRefused("is not a store that the model's manifest lists");
  ASSERT_OK_AND_ASSIGN(ExpertStorage storage, Open({.flat_trust = true}));
  EXPECT_EQ(storage.source->tier_stats().size(), 2u);

  ListStore(folder(), kStoreName, bytes);
  model_ = OpenModelFolder(folder()).value();
  ASSERT_OK_AND_ASSIGN(storage, Open());
  EXPECT_EQ(storage.source->tier_stats().size(), 2u);

  // Of an older conversion: the same shapes, other weights.
  TestStore old = StoreWriter(folder()).Make(2);
  for (auto& [key, record] : old.records) record[100] ^= 1;
  WriteStore(old.Bytes());
  ExpectRefused("is not a store that the model's manifest lists");
}

}  // namespace
}  // namespace picchio
