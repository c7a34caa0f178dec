#include "base/file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/file_calls_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(File, WritesAndReadsAtOffsets) {
  TemporaryFolder folder;
  {
    ASSERT_OK_AND_ASSIGN(File file, File::OpenForWrite(folder / "a"));
    ASSERT_OK(file.WriteAt(3, Bytes("def")));
    ASSERT_OK(file.WriteAt(0, Bytes("abc")));
    ASSERT_OK(file.Sync());
  }
  ASSERT_OK_AND_ASSIGN(const File file, File::OpenForRead(folder / "a"));
  EXPECT_EQ(file.size(), 6u);
  std::string text(4, '\0');
  ASSERT_OK(file.ReadAt(1, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "bcde");
}

TEST(File, ReserveTakesDiskButNoLength) {
  TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(File file, File::OpenForWrite(folder / "a"));
  ASSERT_OK(file.Reserve(1 << 20));
  ASSERT_OK_AND_ASSIGN(const uint64_t length, file.CurrentSize());
  EXPECT_EQ(length, 0u);
  // A file system that cannot reserve leaves 0 here.
  ASSERT_OK_AND_ASSIGN(const uint64_t allocated, file.AllocatedBytes());
  EXPECT_TRUE(allocated == 0 || allocated >= 1 << 20) << allocated;
  ASSERT_OK(file.Resize(5000));
  ASSERT_OK_AND_ASSIGN(const uint64_t resized, file.CurrentSize());
  EXPECT_EQ(resized, 5000u);
  // Hints only: they change no byte.
  file.StartWriteback(0, 5000);
  file.DropCache(0, 5000);
  file.WillNeed(0, 5000);
  std::string zeros(5000, 'x');
  ASSERT_OK(file.ReadAt(0, std::as_writable_bytes(std::span(zeros))));
  EXPECT_EQ(zeros, std::string(5000, '\0'));
}

TEST(File, EndBeforeTheAskedBytesIsAnError) {
  TemporaryFolder folder;
  WriteAll(folder / "a", "abc");
  ASSERT_OK_AND_ASSIGN(const File file, File::OpenForRead(folder / "a"));
  std::string text(4, '\0');
  EXPECT_THAT(file.ReadAt(1, std::as_writable_bytes(std::span(text))),
              Fails(Code::kIoError, "ends at byte 3"));
}

TEST(File, RefusesWhatIsNotAFile) {
  TemporaryFolder folder;
  EXPECT_THAT(File::OpenForRead(folder / "none"), Fails(Code::kNotFound, "none"));
  EXPECT_THAT(File::OpenForRead(folder.path()), Fails(Code::kInvalidArgument, "regular file"));
  // A pipe without a writer must not hang the open.
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(File::OpenForRead(folder / "pipe"), Fails(Code::kInvalidArgument, "regular file"));
}

TEST(File, WhatIsWrittenIsNoLinkAndWhatIsUpdatedIsThere) {
  TemporaryFolder folder;
  WriteAll(folder / "theirs", "precious");
  std::filesystem::create_symlink(folder / "theirs", folder / "link");
  EXPECT_THAT(File::OpenForWrite(folder / "link"), Fails(Code::kIoError, "link"));
  EXPECT_THAT(File::CreateNew(folder / "link"), Fails(Code::kIoError, "File exists"));
  EXPECT_THAT(File::CreateNew(folder / "theirs"), Fails(Code::kIoError, "File exists"));
  EXPECT_THAT(File::OpenForUpdate(folder / "none"), Fails(Code::kNotFound, "none"));
  EXPECT_FALSE(SomethingExists(folder / "none"));
  ASSERT_OK_AND_ASSIGN(File file, File::OpenForUpdate(folder / "link"));
  ASSERT_OK(file.WriteAt(0, Bytes("P")));
  EXPECT_EQ(ReadAll(folder / "theirs"), "Precious");
  ASSERT_OK_AND_ASSIGN(const Path target, FollowLinks(folder / "link"));
  EXPECT_EQ(target, folder / "theirs");
  std::filesystem::create_symlink("ring", folder / "ring");
  EXPECT_THAT(FollowLinks(folder / "ring"), Fails(Code::kIoError, "cannot follow the link"));
}

// A level that is not synced may be gone after a crash, and all below it.
TEST(MakeFolders, SyncsTheFolderOfEachNewOne) {
  TemporaryFolder folder;
  const std::string top = folder.path().filename().string();
  const TestDisk disk;
  ASSERT_OK(MakeFolders(folder / "a/b/../c/"));
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a" / "c"));
  EXPECT_THAT(disk.calls(), testing::ElementsAre("sync " + top + "/", "sync a/"));
  ASSERT_OK(MakeFolders(folder / "a/c"));  // Nothing new, nothing to sync.
  EXPECT_EQ(disk.calls().size(), 2u);
  WriteAll(folder / "file", "x");
  EXPECT_THAT(MakeFolders(folder / "file/d"), Fails(Code::kIoError, "cannot make the folder"));
}

TEST(MakeFolders, TakesNamesFromTheWorkingFolder) {
  TemporaryFolder folder;
  const Path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const TestDisk disk;
  EXPECT_OK(MakeFolders("x/y"));
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::is_directory(folder / "x" / "y"));
  EXPECT_THAT(disk.calls(),
              testing::ElementsAre("sync " + folder.path().filename().string() + "/", "sync x/"));
  EXPECT_EQ(ParentOf("x"), Path("."));
  EXPECT_EQ(ParentOf("x/y"), Path("x"));
}

TEST(File, SecondLockIsRefusedUntilTheFirstCloses) {
  TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(File second, File::OpenForWrite(folder / "lock"));
  {
    ASSERT_OK_AND_ASSIGN(File first, File::OpenForWrite(folder / "lock"));
    ASSERT_OK_AND_ASSIGN(const bool locked, first.TryLock());
    EXPECT_TRUE(locked);
    ASSERT_OK_AND_ASSIGN(const bool again, second.TryLock());
    EXPECT_FALSE(again);
  }
  ASSERT_OK_AND_ASSIGN(const bool now, second.TryLock());
  EXPECT_TRUE(now);
}

TEST(File, KnowsWhetherAPathStillLeadsToIt) {
  TemporaryFolder folder;
  WriteAll(folder / "a", "one");
  WriteAll(folder / "b", "two");
  ASSERT_OK_AND_ASSIGN(const File file, File::OpenForRead(folder / "a"));
  const auto is_at = [&](const char* name) { return file.IsAt(folder / name).value(); };
  EXPECT_TRUE(is_at("a"));
  EXPECT_FALSE(is_at("b"));
  std::filesystem::rename(folder / "a", folder / "c");
  EXPECT_FALSE(is_at("a"));
  EXPECT_TRUE(is_at("c"));
  std::filesystem::rename(folder / "b", folder / "c");
  EXPECT_FALSE(is_at("c"));
}

// What a file system asks of unbuffered writes differs; what it must not do is change the bytes.
TEST(File, UnbufferedAndBufferedWritesMeetInTheSameBytes) {
  TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(File file, File::OpenForWrite(folder / "file"));
  ASSERT_OK_AND_ASSIGN(AlignedBuffer block, AlignedBuffer::Allocate(8192, 4096));
  std::ranges::fill(block.bytes(), std::byte{'x'});
  if (!file.SetUnbuffered(true)) GTEST_SKIP() << "no unbuffered writes here";
  ASSERT_OK(file.WriteAt(4096, block.bytes()));
  ASSERT_TRUE(file.SetUnbuffered(false));
  ASSERT_OK(file.WriteAt(1, block.bytes().first(10)));
  EXPECT_TRUE(ReadAll(folder / "file") == std::string(1, '\0') + std::string(10, 'x') +
                                              std::string(4085, '\0') + std::string(8192, 'x'));
}

TEST(FolderLock, IsHeldWhateverHappensToTheFilesInIt) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "a");
  WriteAll(folder / "a" / "file", "x");
  {
    ASSERT_OK_AND_ASSIGN(FolderLock first, FolderLock::Take(folder / "a"));
    const FolderLock held = std::move(first);
    std::filesystem::remove(folder / "a" / "file");
    EXPECT_THAT(FolderLock::Take(folder / "a"), Fails(Code::kUnavailable, "another process"));
    std::filesystem::rename(folder / "a", folder / "b");
    EXPECT_THAT(FolderLock::Take(folder / "b"), Fails(Code::kUnavailable, "another process"));
  }
  EXPECT_OK(FolderLock::Take(folder / "b"));
  EXPECT_THAT(FolderLock::Take(folder / "none"), Fails(Code::kIoError, "none"));
}

TEST(File, NamesWithSpacesAndUtf8) {
  TemporaryFolder folder;
  const std::string name = "un modèle à 30 Md \xF0\x9F\x90\xA6";
  WriteAll(folder / name, "x");
  ASSERT_OK(File::OpenForRead(folder / name));
  ASSERT_OK_AND_ASSIGN(const auto names, ListFiles(folder.path()));
  EXPECT_THAT(names, testing::ElementsAre(name));
}

TEST(ReadFileToString, ReadsWhatHasNoSize) {
  ASSERT_OK_AND_ASSIGN(const std::string cpus, ReadFileToString("/proc/cpuinfo", 1 << 24));
  EXPECT_THAT(cpus, testing::HasSubstr("processor"));
  EXPECT_THAT(ReadFileToString("/proc/cpuinfo", 10), Fails(Code::kCorrupt, "more than the 10"));
}

TEST(SomethingExists, WhereItCannotBeLookedAt) {
  TemporaryFolder folder;
  EXPECT_FALSE(SomethingExists(folder / "none"));
  EXPECT_FALSE(SomethingExists(folder / "none" / "none"));
  EXPECT_TRUE(SomethingExists(folder.path()));
  EXPECT_TRUE(SomethingExists(folder / std::string(300, 'x')));  // Too long a name.
}

TEST(ReadFileToString, RefusesMoreThanTheLimitBeforeReading) {
  TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(File file, File::OpenForWrite(folder / "sparse"));
  ASSERT_OK(file.Resize(uint64_t{1} << 40));
  EXPECT_THAT(ReadFileToString(folder / "sparse", 1000),
              Fails(Code::kCorrupt, "more than the 1000"));
}

TEST(FileStamp, ChangesWithTheFile) {
  TemporaryFolder folder;
  WriteAll(folder / "a", "one");
  ASSERT_OK_AND_ASSIGN(const std::string before, FileStamp(folder / "a"));
  ASSERT_OK_AND_ASSIGN(const std::string same, FileStamp(folder / "a"));
  EXPECT_EQ(before, same);
  // Another file of the same size and time of modification.
  WriteAll(folder / "b", "two");
  std::filesystem::last_write_time(folder / "b", std::filesystem::last_write_time(folder / "a"));
  std::filesystem::rename(folder / "b", folder / "a");
  ASSERT_OK_AND_ASSIGN(const std::string after, FileStamp(folder / "a"));
  EXPECT_NE(before, after);
  EXPECT_THAT(FileStamp(folder / "none"), Fails(Code::kIoError, "none"));
}

TEST(MemoryFile, ReadsAndEnds) {
  const std::string bytes = "abcdef";
  const MemoryFile file("memory", Bytes(bytes));
  std::string text(2, '\0');
  ASSERT_OK(file.ReadAt(4, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "ef");
  EXPECT_THAT(file.ReadAt(5, std::as_writable_bytes(std::span(text))),
              Fails(Code::kIoError, "ends"));
  EXPECT_THAT(file.ReadAt(~uint64_t{0}, std::as_writable_bytes(std::span(text))),
              Fails(Code::kIoError, "ends"));
}

}  // namespace
}  // namespace picchio
