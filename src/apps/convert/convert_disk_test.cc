// A conversion on a disk that fails, or is full.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/convert/checkpoint_test_support.h"
#include "apps/convert/conversion_test_support.h"
#include "apps/verify/verify.h"
#include "base/file_calls_test_support.h"
#include "format/manifest.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// The order in which a crash at any moment leaves either an unfinished conversion or a model: each
// file is synced before it has its name, and the folder before the manifest is written.
TEST(Convert, SyncsBeforeItRenamesAndListsLast) {
  TemporaryFolder folder;
  const TestDisk disk;
  ASSERT_OK(ConvertTo(FixtureCheckpoint("qwen3_moe_long"), folder / "a/b/out/", Kept()));
  const std::vector<std::string> calls = disk.calls();
  ASSERT_GT(calls.size(), 3u);
  EXPECT_EQ(calls[0], "sync " + folder.path().filename().string() + "/");
  EXPECT_EQ(calls[1], "sync a/");
  EXPECT_EQ(calls[2], "sync b/");
  const auto last = [&](const std::string& call) {
    return std::find(calls.rbegin(), calls.rend(), call).base() - calls.begin();  // 0: never.
  };
  const auto first = [&](const std::string& call) {
    return std::ranges::find(calls, call) - calls.begin() + 1;
  };
  ASSERT_OK_AND_ASSIGN(const auto names, ListFiles(folder / "a/b/out"));
  ASSERT_GE(names.size(), 5u);
  const auto manifest_begins = first("write manifest.json.picchio-tmp");
  for (const std::string& name : names) {
    const std::string temporary = name + ".picchio-tmp";
    const auto renamed = last("rename " + temporary + " " + name);
    EXPECT_GT(last("write " + temporary), 0) << name;
    EXPECT_LT(last("write " + temporary), first("sync " + temporary)) << name;
    EXPECT_LT(first("sync " + temporary), renamed) << name;
    EXPECT_GT(last("sync out/"), renamed) << name;
    if (name == kManifestName) continue;
    const auto synced = std::find(calls.begin() + renamed, calls.end(), "sync out/");
    EXPECT_LT(synced - calls.begin() + 1, manifest_begins) << name;
  }
}

// Whatever fails, it is one sentence and nothing that looks whole; then the same command goes on.
TEST(Convert, AFailingDiskIsASentenceAndTheNextRunGoesOn) {
  const Path checkpoint = FixtureCheckpoint("qwen3_moe_long");
  TemporaryFolder whole;
  int writes = 0;
  int syncs = 0;
  int renames = 0;
  {
    const TestDisk disk;
    ASSERT_OK(ConvertTo(checkpoint, whole.path(), Kept(), 1));
    writes = disk.writes();
    syncs = disk.syncs();
    renames = disk.renames();
  }
  ASSERT_GT(syncs, 5);
  ASSERT_GT(renames, 3);
  const auto expected = FolderContents(whole.path());
  const auto attempt = [&](DiskFault fault, const char* message) {
    TemporaryFolder out;
    {
      const TestDisk disk(fault);
      EXPECT_THAT(ConvertTo(checkpoint, out.path(), Kept(), 1), Fails(Code::kIoError, message));
    }
    // But for the very last sync, behind the manifest's rename.
    if (FileExists(out / kManifestName)) {
      EXPECT_EQ(fault.kind, DiskFault::Kind::kSyncError);
      EXPECT_EQ(fault.at, syncs);
      EXPECT_OK(VerifyModel(out.path(), 1, kGoOn));
      return;
    }
    EXPECT_OK(ConvertTo(checkpoint, out.path(), Kept(), 1));
    EXPECT_TRUE(FolderContents(out.path()) == expected);
  };
  using enum DiskFault::Kind;
  for (int at = 1; at <= writes; at += std::max(1, writes / 9)) {
    attempt({kWriteError, at, at % 2 == 0 ? EIO : ENOSPC},
            at % 2 == 0 ? "Input/output error" : "No space left");
    attempt({kWriteNothing, at}, "cannot write");
  }
  for (int at = 1; at <= syncs; ++at) attempt({kSyncError, at, EIO}, "cannot sync");
  for (int at = 1; at <= renames; ++at) attempt({kRenameError, at, EIO}, "cannot rename");
}

TEST(Convert, GoesOnAfterInterruptsAndShortWrites) {
  TemporaryFolder whole;
  ASSERT_OK(ConvertTo(FixtureCheckpoint("qwen3_moe_long"), whole.path(), Kept()));
  using enum DiskFault::Kind;
  for (const DiskFault& fault :
       {DiskFault{kWriteError, 1, EINTR}, DiskFault{kWriteError, 20, EINTR},
        DiskFault{kWriteShort, 9}, DiskFault{kSyncError, 1, EINTR},
        DiskFault{kSyncError, 4, EINTR}}) {
    TemporaryFolder out;
    const TestDisk disk(fault);
    ASSERT_OK(ConvertTo(FixtureCheckpoint("qwen3_moe_long"), out.path(), Kept()));
    EXPECT_TRUE(FolderContents(out.path()) == FolderContents(whole.path()));
  }
}

// Of the files still to be written, and 64 MiB for everything else.
TEST(Convert, AsksForTheRoomThatItNeeds) {
  TemporaryFolder whole;
  ASSERT_OK(ConvertTo(FixtureCheckpoint("qwen3_moe_long"), whole.path(), {}));
  uint64_t needed = uint64_t{64} << 20;
  for (const char* name : {"dense.safetensors", "experts.picchioflat"}) {
    needed += ReadAll(whole / name).size();
  }
  TemporaryFolder out;
  TestDisk disk;
  disk.free_bytes = needed - 1;
  EXPECT_THAT(ConvertTo(FixtureCheckpoint("qwen3_moe_long"), out.path(), {}),
              Fails(Code::kResourceExhausted, "free, and the converted model needs"));
  EXPECT_FALSE(FileExists(out / kManifestName));
  disk.free_bytes = needed;
  EXPECT_OK(ConvertTo(FixtureCheckpoint("qwen3_moe_long"), out.path(), {}));
  EXPECT_TRUE(FolderContents(out.path()) == FolderContents(whole.path()));
}

}  // namespace
}  // namespace picchio
