#include "apps/pack/pack.h"

#include <algorithm>
#include <cerrno>

#include "apps/pack/store_listing.h"
#include "apps/pack/store_test_support.h"
#include "apps/verify/verify.h"
#include "base/atomic_file.h"
#include "base/file_calls_test_support.h"

namespace picchio {
namespace {

Result<PackReport> PackWith(const Path& model, const PackOptions& options, int threads = 2) {
  return Pack(model, options, threads, kGoOn);
}

struct Packed {
  const char* name;
  const char* fixture;
  PayloadKind kind;
  uint32_t version;
};

class PackKinds : public testing::TestWithParam<Packed> {};

INSTANTIATE_TEST_SUITE_P(
    All, PackKinds,
    testing::Values(Packed{"qwen3_int4_v2", "qwen3_moe_tiny", PayloadKind::kInt4, 2},
                    Packed{"qwen3_int4_v3", "qwen3_moe_tiny", PayloadKind::kInt4, 3},
                    Packed{"dense_layers_int4_v2", "qwen3_moe_tiny_dense", PayloadKind::kInt4, 2},
                    Packed{"qwen3_bf16_v3", "qwen3_moe_tiny", PayloadKind::kBf16, 3},
                    Packed{"gpt_oss_int4_v2", "gpt_oss_tiny", PayloadKind::kInt4, 2},
                    Packed{"gpt_oss_int4_v3", "gpt_oss_tiny", PayloadKind::kInt4, 3},
                    Packed{"gpt_oss_mxfp4_v3", "gpt_oss_tiny", PayloadKind::kMxfp4, 3},
                    Packed{"gpt_oss_bf16_v3", "gpt_oss_tiny", PayloadKind::kBf16, 3}),
    [](const auto& test) { return std::string(test.param.name); });

// Whole and partial, every block size: the bytes are those of a writer that is written
// from the page alone (it shares the hashes with ours: tests/pack_bytes_test does not), and the
// model that lists the store verifies.
TEST_P(PackKinds, WritesTheStoreThatTheFormatDescribes) {
  TemporaryFolder folder;
  const Path model = folder / "model";
  MakeModel(GetParam().fixture, GetParam().kind, model);
  const auto version = static_cast<RecordVersion>(GetParam().version);
  const bool usual = UsualStoreVersion(GetParam().kind) == version;
  if (usual) {
    EXPECT_TRUE(ReadAll(model / "experts.picchioflat") ==
                ExpectedStore(model, GetParam().version, 4096))
        << "convert writes another store than pack should";
  }
  for (uint32_t block_size = 4096; block_size <= 1 << 20; block_size *= 4) {
    const std::string expected = ExpectedStore(model, GetParam().version, block_size);
    PackOptions options{.block_size = block_size, .read_back = true};
    if (!usual) options.version = version;
    ASSERT_OK_AND_ASSIGN(const PackReport report, PackWith(model, options, 3));
    EXPECT_TRUE(ReadAll(model / "experts.picchioflat") == expected) << block_size;
    EXPECT_EQ(report.store_bytes, expected.size());
    EXPECT_EQ(report.num_records, report.num_all_records);
    EXPECT_EQ(report.version, version);
    if (block_size > 4096) continue;
    ASSERT_OK_AND_ASSIGN(const VerifyReport verified, VerifyModel(model, 2, kGoOn));
    EXPECT_EQ(verified.num_stores, 1u);
  }
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, ModelConfig::Load(model));
  const uint32_t layers = config.num_hidden_layers - 1;
  ASSERT_OK_AND_ASSIGN(
      const PackReport partial,
      PackWith(model, {.output = folder / "part", .version = version, .num_layers = layers}, 1));
  EXPECT_LT(partial.num_records, partial.num_all_records);
  EXPECT_TRUE(ReadAll(folder / "part") == ExpectedStore(model, GetParam().version, 4096, layers));
}

TEST(Pack, RefusesWhatItCannotDo) {
  TemporaryFolder folder;
  const Path model = folder / "model";
  MakeModel("gpt_oss_tiny", std::nullopt, model);
  EXPECT_THAT(PackWith(model, {.version = RecordVersion::kV2}),
              Fails(Code::kUnsupported, "MXFP4: use version 3"));
  EXPECT_THAT(PackWith(model, {.num_layers = 5}),
              Fails(Code::kInvalidArgument, "the model has 4 layers"));
  EXPECT_THAT(PackWith(model, {.block_size = 4095}), Fails(Code::kInvalidArgument, "4095"));
  WriteAll(folder / "precious", "not a store");
  WriteAll(folder / "empty", "");
  for (const char* name : {"precious", "empty"}) {
    EXPECT_THAT(PackWith(model, {.output = folder / name}),
                Fails(Code::kInvalidArgument, "is not a store"));
  }
  EXPECT_EQ(ReadAll(folder / "precious"), "not a store");
  for (const char* name : {"config.json", "dense.safetensors", "manifest.json",
                           "experts-00001.safetensors", "pending-x"}) {
    EXPECT_THAT(PackWith(model, {.output = model / name}),
                Fails(Code::kInvalidArgument, "cannot be the name of a store"));
  }
  EXPECT_THAT(PackWith(model, {.output = folder.path()}),
              Fails(Code::kInvalidArgument, "not a regular file"));
  EXPECT_THAT(PackWith(model, {.output = folder / "none" / "store"}),
              Fails(Code::kIoError, "none"));
  EXPECT_THAT(PackWith(folder / "none", {}), Fails(Code::kNotFound, "not a folder"));
  EXPECT_THAT(PackWith(FixtureCheckpoint("gpt_oss_tiny"), {}),
              Fails(Code::kNotFound, "picchio convert"));
  EXPECT_OK(VerifyModel(model, 2, kGoOn));

  ASSERT_OK(Convert(FixtureCheckpoint("gpt_oss_tiny"), folder / "alone", {}, 2, kGoOn));
  EXPECT_THAT(PackWith(folder / "alone", {}), Fails(Code::kUnsupported, "--keep-safetensors"));
}

// What no conversion writes, and no store shall have.
TEST(Pack, RefusesAScaleThatStandsForNaN) {
  TemporaryFolder folder;
  const Path model = folder / "model";
  MakeModel("gpt_oss_tiny", std::nullopt, model);
  const auto before = FolderContents(model);
  ASSERT_OK_AND_ASSIGN(const ModelFolder opened, OpenModelFolder(model));
  for (const char* matrix : {"gate_up_proj", "down_proj"}) {
    const std::string name = fmt::format("model.layers.2.mlp.experts.{}.3.scales", matrix);
    const TensorEntry* scales = opened.tensors.Find(name);
    ASSERT_NE(scales, nullptr);
    const std::string file = opened.tensors.file_name(scales->file_idx);
    std::string spoilt = before.at(file);
    spoilt[scales->offset + 7] = '\xff';
    WriteAll(model / file, spoilt);
    EXPECT_THAT(PackWith(model, {}),
                Fails(Code::kCorrupt, fmt::format("tensor \"{}\": row 1 block 3", name)));
    EXPECT_THAT(PackWith(model, {}), Fails(Code::kCorrupt, "its MXFP4 scale is 255"));
    WriteAll(model / file, before.at(file));
  }
  EXPECT_TRUE(FolderContents(model) == before);
}

// The first layers of this model are dense: a store of them would be empty.
TEST(Pack, RefusesAStoreWithoutExperts) {
  TemporaryFolder folder;
  MakeModel("qwen3_moe_tiny_dense", std::nullopt, folder / "model");
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, ModelConfig::Load(folder / "model"));
  ASSERT_FALSE(config.layers[0].moe);
  EXPECT_THAT(PackWith(folder / "model", {.num_layers = 1}),
              Fails(Code::kInvalidArgument, "have no experts"));
}

TEST(Pack, ASecondOneIsRefused) {
  TemporaryFolder folder;
  const Path model = folder / "model";
  MakeModel("qwen3_moe_long", std::nullopt, model);
  {
    ASSERT_OK_AND_ASSIGN(const FolderLock lock, FolderLock::Take(model));
    EXPECT_THAT(PackWith(model, {}), Fails(Code::kUnavailable, "another picchio"));
  }
  // Another model's packer may be writing the same file.
  ASSERT_OK_AND_ASSIGN(File other, File::OpenForWrite(TemporaryName(folder / "store")));
  ASSERT_OK_AND_ASSIGN(const bool locked, other.TryLock());
  ASSERT_TRUE(locked);
  EXPECT_THAT(PackWith(model, {.output = folder / "store"}),
              Fails(Code::kUnavailable, "another picchio"));
  EXPECT_TRUE(FileExists(TemporaryName(folder / "store")));
}

TEST(Pack, StoppedItLeavesWhatWasThere) {
  TemporaryFolder folder;
  const Path model = folder / "model";
  MakeModel("qwen3_moe_long", std::nullopt, model);
  const auto before = FolderContents(model);
  const std::atomic<bool> stop{true};
  EXPECT_THAT(Pack(model, {.block_size = 8192}, 2, stop), Fails(Code::kCancelled, "stopped"));
  EXPECT_TRUE(FolderContents(model) == before);
}

// --- Where the store is listed ---

TEST(Pack, AStoreElsewhereIsTakenAndTheOneInTheFolderStays) {
  TemporaryFolder folder;
  const Path model = folder / "model";
  MakeModel("qwen3_moe_long", std::nullopt, model);
  ASSERT_OK(PackWith(model, {.output = folder / "experts.picchioflat", .block_size = 8192}));
  EXPECT_TRUE(Accepted(model, folder / "experts.picchioflat"));
  EXPECT_TRUE(Accepted(model, model / "experts.picchioflat"));
  ASSERT_OK_AND_ASSIGN(const Manifest manifest, LoadManifest(model));
  EXPECT_EQ(manifest.stores.size(), 2u);
  ASSERT_OK(VerifyModel(model, 2, kGoOn));
  // Version 3 names its model itself.
  ASSERT_OK(PackWith(model, {.output = folder / "v3", .version = RecordVersion::kV3}));
  EXPECT_TRUE(Accepted(model, folder / "v3"));
  ASSERT_OK_AND_ASSIGN(const Manifest after, LoadManifest(model));
  EXPECT_EQ(after.stores.size(), 2u);
}

TEST(Pack, FollowsALink) {
  TemporaryFolder folder;
  const Path model = folder / "model";
  MakeModelWithoutStore("qwen3_moe_long", std::nullopt, model);
  std::filesystem::create_directories(folder / "fast");
  std::filesystem::create_symlink(folder / "fast" / "store", model / "experts.picchioflat");
  ASSERT_OK(PackWith(model, {}));
  EXPECT_TRUE(std::filesystem::is_symlink(model / "experts.picchioflat"));
  EXPECT_TRUE(FileExists(folder / "fast" / "store"));
  EXPECT_OK(VerifyModel(model, 2, kGoOn));
}

// --- A disk that fails ---

class FaultyPack : public testing::Test {
 protected:
  void SetUp() override {
    MakeModel("qwen3_moe_long", std::nullopt, model_);
    before_ = FolderContents(model_);
    expected_ = ExpectedStore(model_, 2, 1 << 20);
  }

  // Blocks of 1 MiB, as large as they can be: the most that there is to write.
  Result<PackReport> Run(bool read_back = false) {
    return Pack(model_, {.block_size = 1 << 20, .read_back = read_back}, 2, kGoOn);
  }

  TemporaryFolder folder_;
  const Path model_ = folder_ / "model";
  std::map<std::string, std::string> before_;
  std::string expected_;
};

// The order in which a crash at any moment leaves the old store or the new one, and the one that is
// there listed (store_listing.h).
TEST_F(FaultyPack, SyncsBeforeItRenamesAndConfirmsLast) {
  const TestDisk disk;
  ASSERT_OK(Run());
  EXPECT_THAT(disk.calls(),
              testing::ElementsAre(
                  "write experts.picchioflat.picchio-tmp", "sync experts.picchioflat.picchio-tmp",
                  "write manifest.json.picchio-tmp", "sync manifest.json.picchio-tmp",
                  "rename manifest.json.picchio-tmp manifest.json", "sync model/",
                  "rename experts.picchioflat.picchio-tmp experts.picchioflat", "sync model/",
                  "write manifest.json.picchio-tmp", "sync manifest.json.picchio-tmp",
                  "rename manifest.json.picchio-tmp manifest.json", "sync model/"));
}

TEST_F(FaultyPack, GoesOnAfterInterruptsAndShortWrites) {
  int writes = 0;
  {
    const TestDisk whole;
    ASSERT_OK(Run());
    writes = whole.writes();
  }
  ASSERT_GE(writes, 4);  // Records, head, and the manifest twice.
  using enum DiskFault::Kind;
  for (int at = 1; at <= writes; ++at) {
    for (const DiskFault& fault : {DiskFault{kWriteError, at, EINTR}, DiskFault{kWriteShort, at}}) {
      if (fault.kind == kWriteShort && at > writes - 2) continue;  // The manifest has less.
      std::filesystem::remove(model_ / "experts.picchioflat");
      const TestDisk disk(fault);
      ASSERT_OK(Run(true));
      EXPECT_TRUE(ReadAll(model_ / "experts.picchioflat") == expected_) << at;
    }
  }
  const TestDisk interrupted_sync({kSyncError, 1, EINTR});
  EXPECT_OK(Run());
}

// One sentence, the old store, and nothing else.
TEST_F(FaultyPack, FailsInOneSentenceAndLeavesNothing) {
  int writes = 0;
  int syncs = 0;
  int renames = 0;
  {
    const TestDisk whole;
    ASSERT_OK(Run());
    writes = whole.writes();
    syncs = whole.syncs();
    renames = whole.renames();
  }
  ASSERT_EQ(syncs, 6);
  ASSERT_EQ(renames, 3);
  const auto put_back = [&] {
    for (const auto& [name, bytes] : before_) WriteAll(model_ / name, bytes);
  };
  using enum DiskFault::Kind;
  const auto attempt = [&](DiskFault fault, const char* message, bool nothing_done) {
    put_back();
    {
      const TestDisk disk(fault);
      EXPECT_THAT(Run(), Fails(Code::kIoError, message)) << fault.at;
    }
    if (nothing_done) {
      EXPECT_TRUE(FolderContents(model_) == before_) << fault.at;
    }
    // Whichever store is there, it is whole, and the manifest has it.
    EXPECT_OK(VerifyModel(model_, 2, kGoOn)) << fault.at;
  };
  for (int at = 1; at <= writes; ++at) {
    const bool before_rename = at < writes;  // The last one is the manifest's, with its own name.
    attempt({kWriteError, at, EIO}, "Input/output error", before_rename);
    attempt({kWriteError, at, ENOSPC}, "No space left", before_rename);
    attempt({kWriteNothing, at}, "Input/output error", before_rename);
  }
  // Of the store; of the manifest and its folder, twice, and of the store's folder in between.
  for (int at = 1; at <= syncs; ++at) {
    attempt({kSyncError, at, EIO}, "cannot sync", at <= 3);
  }
  for (int at = 1; at <= renames; ++at) {
    attempt({kRenameError, at, EIO}, "cannot rename", at <= 2);
  }
  // What is pending then goes with the next one.
  put_back();
  ASSERT_OK(Run());
  ASSERT_OK_AND_ASSIGN(const Manifest manifest, LoadManifest(model_));
  EXPECT_EQ(manifest.stores.size(), 1u);
}

// File systems that take O_DIRECT at first.
TEST_F(FaultyPack, WritesThroughTheCacheWhereItMust) {
  {
    ASSERT_OK_AND_ASSIGN(File file, File::OpenForWrite(model_ / "probe"));
    const bool has_it = file.SetUnbuffered(true);
    std::filesystem::remove(model_ / "probe");
    if (!has_it) GTEST_SKIP() << "the file system of the tests has no unbuffered writes to lose";
  }
  {
    const TestDisk disk({DiskFault::Kind::kWriteError, 2, EINVAL});
    ASSERT_OK_AND_ASSIGN(const PackReport report, Run());
    EXPECT_TRUE(ReadAll(model_ / "experts.picchioflat") == expected_);
    EXPECT_FALSE(report.unbuffered);
  }
  ASSERT_OK_AND_ASSIGN(const PackReport healthy, Run());
  EXPECT_TRUE(healthy.unbuffered);
}

TEST_F(FaultyPack, ReadingBackFindsWhatTheDiskChanged) {
  for (int at = 1; at <= 2; ++at) {
    const TestDisk disk({DiskFault::Kind::kWriteWrong, at});
    EXPECT_THAT(Run(true), Fails(Code::kCorrupt, "does not read back"));
    EXPECT_TRUE(FolderContents(model_) == before_);
  }
}

// Of the store's own bytes, and 16 MiB for everything else.
TEST_F(FaultyPack, AsksForTheRoomThatItNeeds) {
  TestDisk disk;
  disk.free_bytes = expected_.size() + (16 << 20) - 1;
  EXPECT_THAT(Run(), Fails(Code::kResourceExhausted, "free, and the store needs"));
  EXPECT_TRUE(FolderContents(model_) == before_);
  ++*disk.free_bytes;
  EXPECT_OK(Run());
}

}  // namespace
}  // namespace picchio
