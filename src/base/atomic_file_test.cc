#include "base/atomic_file.h"

#include <cerrno>
#include <span>

#include "base/file_calls_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

std::vector<std::string> NamesIn(const Path& folder) {
  auto names = ListFiles(folder);
  EXPECT_OK(names);
  return *names;
}

TEST(AtomicFile, AppearsOnCommitOnly) {
  TemporaryFolder folder;
  WriteAll(folder / "a", "old");
  {
    ASSERT_OK_AND_ASSIGN(AtomicFile file, AtomicFile::Create(folder / "a"));
    ASSERT_OK(file.file().WriteAt(0, std::as_bytes(std::span(std::string_view("new")))));
    EXPECT_EQ(ReadAll(folder / "a"), "old");
    ASSERT_OK(file.Commit());
  }
  EXPECT_EQ(ReadAll(folder / "a"), "new");
  {
    ASSERT_OK_AND_ASSIGN(const AtomicFile abandoned, AtomicFile::Create(folder / "a"));
    EXPECT_EQ(NamesIn(folder.path()).size(), 2u);
  }
  EXPECT_EQ(ReadAll(folder / "a"), "new");
  EXPECT_THAT(NamesIn(folder.path()), testing::ElementsAre("a"));
}

TEST(AtomicFile, LeftoversOfACrashAreStartedOver) {
  TemporaryFolder folder;
  WriteAll(TemporaryName(folder / "a"), "a long leftover");
  ASSERT_OK(WriteFileAtomically(folder / "a", "new"));
  EXPECT_EQ(ReadAll(folder / "a"), "new");
  EXPECT_THAT(NamesIn(folder.path()), testing::ElementsAre("a"));
}

// A link under the temporary name leads to somebody else's file, and so may another name of it.
TEST(AtomicFile, LeftoversThatAreOtherPeoplesFilesAreNotWritten) {
  TemporaryFolder folder;
  WriteAll(folder / "theirs", "precious");
  std::filesystem::create_symlink(folder / "theirs", TemporaryName(folder / "a"));
  ASSERT_OK(WriteFileAtomically(folder / "a", "new"));
  EXPECT_EQ(ReadAll(folder / "a"), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "a"));
  std::filesystem::create_hard_link(folder / "theirs", TemporaryName(folder / "a"));
  ASSERT_OK(WriteFileAtomically(folder / "a", "newer"));
  EXPECT_EQ(ReadAll(folder / "a"), "newer");
  EXPECT_EQ(ReadAll(folder / "theirs"), "precious");
  std::filesystem::create_symlink("nowhere", TemporaryName(folder / "a"));
  ASSERT_OK(WriteFileAtomically(folder / "a", "newest"));
  EXPECT_THAT(NamesIn(folder.path()), testing::ElementsAre("a", "theirs"));
}

// Two that save the same file at once, as two processes would: each writes into a file of its own.
TEST(AtomicFile, TwoOfOneNameAreBothWhole) {
  TemporaryFolder folder;
  const auto put = [](AtomicFile& file, uint64_t offset, std::string_view text) {
    return file.file().WriteAt(offset, std::as_bytes(std::span(text)));
  };
  for (const bool first_is_last : {false, true}) {
    ASSERT_OK_AND_ASSIGN(AtomicFile first, AtomicFile::Create(folder / "a"));
    ASSERT_OK(put(first, 0, "one "));
    ASSERT_OK_AND_ASSIGN(AtomicFile second, AtomicFile::Create(folder / "a"));
    ASSERT_OK(put(second, 0, "another, longer"));
    ASSERT_OK(put(first, 4, "whole"));
    ASSERT_OK((first_is_last ? second : first).Commit());
    EXPECT_EQ(ReadAll(folder / "a"), first_is_last ? "another, longer" : "one whole");
    ASSERT_OK((first_is_last ? first : second).Commit());
    EXPECT_EQ(ReadAll(folder / "a"), first_is_last ? "one whole" : "another, longer");
  }
  EXPECT_THAT(NamesIn(folder.path()), testing::ElementsAre("a"));
}

// What makes it durable, in the only order that does.
TEST(AtomicFile, SyncsTheFileThenRenamesThenSyncsTheFolder) {
  TemporaryFolder folder;
  const TestDisk disk;
  ASSERT_OK(WriteFileAtomically(folder / "a", "new"));
  EXPECT_THAT(
      disk.calls(),
      testing::ElementsAre("write a.picchio-tmp", "sync a.picchio-tmp", "rename a.picchio-tmp a",
                           "sync " + folder.path().filename().string() + "/"));
}

TEST(AtomicFile, AFailingDiskLeavesTheOldFile) {
  TemporaryFolder folder;
  WriteAll(folder / "a", "old");
  using enum DiskFault::Kind;
  for (const DiskFault& fault : {DiskFault{kWriteError, 1, EIO}, DiskFault{kWriteError, 1, ENOSPC},
                                 DiskFault{kWriteNothing, 1}, DiskFault{kSyncError, 1, EIO},
                                 DiskFault{kRenameError, 1, EIO}}) {
    const TestDisk disk(fault);
    EXPECT_THAT(WriteFileAtomically(folder / "a", "new"),
                Fails(Code::kIoError, fault.error == ENOSPC ? "No space" : "Input/output error"));
    EXPECT_EQ(ReadAll(folder / "a"), "old");
    EXPECT_THAT(NamesIn(folder.path()), testing::ElementsAre("a"));
  }
  for (const DiskFault& fault : {DiskFault{kWriteError, 1, EINTR}, DiskFault{kSyncError, 1, EINTR},
                                 DiskFault{kSyncError, 2, EINTR}}) {
    const TestDisk disk(fault);
    ASSERT_OK(WriteFileAtomically(folder / "a", "new"));
  }
  EXPECT_EQ(ReadAll(folder / "a"), "new");
}

TEST(AtomicFile, FollowsLinksAndRefusesWhatIsNoFile) {
  TemporaryFolder folder;
  WriteAll(folder / "target", "old");
  std::filesystem::create_symlink(folder / "target", folder / "link");
  ASSERT_OK(WriteFileAtomically(folder / "link", "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(ReadAll(folder / "target"), "new");

  EXPECT_THAT(WriteFileAtomically("/dev/null", "x"), Fails(Code::kInvalidArgument, "/dev/null"));
  EXPECT_THAT(WriteFileAtomically(folder.path(), "x"), Fails(Code::kInvalidArgument, "regular"));
  EXPECT_THAT(WriteFileAtomically("/proc/nowhere/a", "x"), Fails(Code::kIoError, "cannot write"));
}

}  // namespace
}  // namespace picchio
