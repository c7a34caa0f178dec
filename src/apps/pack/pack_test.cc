#include "apps/pack/pack.h"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "apps/pack/store_listing.h"
#include "apps/pack/store_test_support.h"
#include "apps/verify/verify.h"
#include "base/aligned_buffer.h"
#include "base/atomic_file.h"

namespace picchio {
namespace {

Result<PackReport> PackWith(const Path& model, const PackOptions& options, int threads = 2) {
  return Pack(model, options, threads, kNoStop);
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

// Whole and partial, every block size: the bytes are those that an independent writer makes, and
// the model that lists the store verifies.
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
    ASSERT_OK_AND_ASSIGN(const VerifyReport verified, VerifyModel(model, 2, kNoStop));
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
  EXPECT_OK(VerifyModel(model, 2, kNoStop));

  ASSERT_OK(Convert(FixtureCheckpoint("gpt_oss_tiny"), folder / "alone", {}, 2, kNoStop));
  EXPECT_THAT(PackWith(folder / "alone", {}), Fails(Code::kUnsupported, "--keep-safetensors"));
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
  ASSERT_OK(VerifyModel(model, 2, kNoStop));
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
  EXPECT_OK(VerifyModel(model, 2, kNoStop));
}

// --- A disk that fails ---

// Does to the n-th write what the test wants of it.
class FaultyDisk final : public DiskCalls {
 public:
  enum class Fault { kNone, kInterrupt, kShort, kZero, kError, kFlip, kSyncError };

  FaultyDisk(Fault fault, int at, int error = 0) : fault_(fault), at_(at), error_(error) {}

  ssize_t Write(int descriptor, std::span<const std::byte> bytes, uint64_t offset) override {
    const std::lock_guard lock(mutex_);
    const bool now = ++writes_ == at_;
    switch (now ? fault_ : Fault::kNone) {
      case Fault::kInterrupt:
        errno = EINTR;
        return -1;
      case Fault::kZero:
        return 0;
      case Fault::kError:
        errno = error_;
        return -1;
      case Fault::kShort:
        return DiskCalls::Write(descriptor, bytes.first(bytes.size() / 8192 * 4096), offset);
      case Fault::kFlip: {
        AlignedBuffer copy = std::move(*AlignedBuffer::Allocate(bytes.size(), 4096));
        std::ranges::copy(bytes, copy.data());
        copy.data()[bytes.size() / 2] ^= std::byte{4};
        return DiskCalls::Write(descriptor, copy.bytes(), offset);
      }
      case Fault::kNone:
      case Fault::kSyncError:
        break;
    }
    return DiskCalls::Write(descriptor, bytes, offset);
  }

  int Sync(int descriptor) override {
    const std::lock_guard lock(mutex_);
    ++syncs_;
    if (fault_ == Fault::kSyncError && syncs_ == at_) {
      errno = error_;
      return -1;
    }
    return DiskCalls::Sync(descriptor);
  }

  int writes() const { return writes_; }

 private:
  const Fault fault_;
  const int at_;
  const int error_;
  std::mutex mutex_;
  int writes_ = 0;
  int syncs_ = 0;
};

class FaultyPack : public testing::Test {
 protected:
  void SetUp() override {
    MakeModel("qwen3_moe_long", std::nullopt, model_);
    before_ = FolderContents(model_);
    expected_ = ExpectedStore(model_, 2, 1 << 20);
  }

  // Blocks of 1 MiB, as large as they can be: the most that there is to write.
  Result<PackReport> Run(FaultyDisk& disk, bool read_back = false) {
    return Pack(model_, {.block_size = 1 << 20, .read_back = read_back}, 2, kNoStop, disk);
  }

  TemporaryFolder folder_;
  const Path model_ = folder_ / "model";
  std::map<std::string, std::string> before_;
  std::string expected_;
};

TEST_F(FaultyPack, GoesOnAfterInterruptsAndShortWrites) {
  FaultyDisk whole(FaultyDisk::Fault::kNone, 0);
  ASSERT_OK(Run(whole));
  ASSERT_GE(whole.writes(), 2);  // Records and head.
  for (const auto fault : {FaultyDisk::Fault::kInterrupt, FaultyDisk::Fault::kShort}) {
    for (int at = 1; at <= whole.writes(); ++at) {
      FaultyDisk disk(fault, at);
      std::filesystem::remove(model_ / "experts.picchioflat");
      ASSERT_OK(Run(disk, true));
      EXPECT_TRUE(ReadAll(model_ / "experts.picchioflat") == expected_) << at;
    }
  }
  FaultyDisk interrupted_sync(FaultyDisk::Fault::kSyncError, 1, EINTR);
  EXPECT_OK(Run(interrupted_sync));
}

// One sentence, the old store, and nothing else.
TEST_F(FaultyPack, FailsInOneSentenceAndLeavesNothing) {
  FaultyDisk whole(FaultyDisk::Fault::kNone, 0);
  ASSERT_OK(Pack(model_,
                 {.output = folder_ / "x", .version = RecordVersion::kV3, .block_size = 1 << 20}, 2,
                 kNoStop, whole));
  struct Case {
    FaultyDisk::Fault fault;
    int error;
    const char* message;
  };
  for (const Case& c : {Case{FaultyDisk::Fault::kError, EIO, "Input/output error"},
                        Case{FaultyDisk::Fault::kError, ENOSPC, "No space left"},
                        Case{FaultyDisk::Fault::kZero, 0, "Input/output error"}}) {
    for (int at = 1; at <= whole.writes(); ++at) {
      FaultyDisk disk(c.fault, at, c.error);
      EXPECT_THAT(Run(disk), Fails(Code::kIoError, c.message)) << at;
      EXPECT_TRUE(FolderContents(model_) == before_) << at;
    }
  }
  FaultyDisk sync(FaultyDisk::Fault::kSyncError, 1, EIO);
  EXPECT_THAT(Run(sync), Fails(Code::kIoError, "cannot sync"));
  EXPECT_TRUE(FolderContents(model_) == before_);
}

// File systems that take O_DIRECT at first.
TEST_F(FaultyPack, WritesThroughTheCacheWhereItMust) {
  FaultyDisk disk(FaultyDisk::Fault::kError, 2, EINVAL);
  ASSERT_OK_AND_ASSIGN(const PackReport report, Run(disk));
  EXPECT_TRUE(ReadAll(model_ / "experts.picchioflat") == expected_);
  FaultyDisk healthy(FaultyDisk::Fault::kNone, 0);
  ASSERT_OK_AND_ASSIGN(const PackReport other, Run(healthy));
  // Where the folder of the tests has it at all.
  EXPECT_TRUE(!other.unbuffered || !report.unbuffered);
}

TEST_F(FaultyPack, ReadingBackFindsWhatTheDiskChanged) {
  for (int at = 1; at <= 2; ++at) {
    FaultyDisk disk(FaultyDisk::Fault::kFlip, at);
    EXPECT_THAT(Run(disk, true), Fails(Code::kCorrupt, "does not read back"));
    EXPECT_TRUE(FolderContents(model_) == before_);
  }
}

}  // namespace
}  // namespace picchio
