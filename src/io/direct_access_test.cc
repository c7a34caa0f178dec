#include "io/direct_access.h"

#include <sys/vfs.h>
#include <unistd.h>

#include "base/units.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TEST(DirectAccessTest, TheLargestAlignmentCountsAndAtLeast4096) {
  EXPECT_EQ(CombineAlignments(0, 0, 0), 4096u);
  EXPECT_EQ(CombineAlignments(4, 512, 512), 4096u);
  EXPECT_EQ(CombineAlignments(4, 512, 16384), 16384u);
  EXPECT_EQ(CombineAlignments(8192, 512, 0), 8192u);
  EXPECT_EQ(CombineAlignments(512, 128_KiB, 4096), 128_KiB);  // ZFS with its usual records.
  EXPECT_EQ(CombineAlignments(512, 6144, 0), 0u);
}

TEST(DirectAccessTest, KnowsFileSystemsByTheirNumbers) {
  EXPECT_EQ(FileSystemName(0x01021994), "tmpfs");
  EXPECT_EQ(FileSystemName(0x65735546), "FUSE");
  EXPECT_EQ(FileSystemName(1), "an unknown file system");
}

// A file in /dev/shm, or nothing where that is no tmpfs.
class TmpfsFile {
 public:
  TmpfsFile() {
    struct statfs info;
    if (statfs("/dev/shm", &info) != 0 || info.f_type != 0x01021994) return;
    path_ = "/dev/shm/picchio-direct-access-test-" + std::to_string(getpid());
    WriteAll(path_, std::string(8192, 'x'));
  }
  ~TmpfsFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  const Path& path() const { return path_; }

 private:
  Path path_;
};

TEST(DirectAccessTest, TmpfsIsRecognisedByItsType) {
  const TmpfsFile file;
  if (file.path().empty()) GTEST_SKIP() << "/dev/shm is no tmpfs here";
  ASSERT_OK_AND_ASSIGN(const File buffered, File::OpenForRead(file.path()));
  const DirectAccess access = OpenDirect(file.path(), buffered.descriptor(), 8192, 64_KiB);
  EXPECT_EQ(access.alignment, 0u);
  EXPECT_EQ(access.descriptor, -1);
  EXPECT_THAT(access.why_not, testing::HasSubstr("tmpfs"));
}

TEST(DirectAccessTest, AlignmentIsFoundOrThereIsAReason) {
  const TemporaryFolder folder;
  for (const uint64_t size : {uint64_t{1}, uint64_t{5000}, 256_KiB}) {
    const Path path = folder / "file";
    WriteAll(path, std::string(size, 'x'));
    ASSERT_OK_AND_ASSIGN(const File buffered, File::OpenForRead(path));
    const DirectAccess access = OpenDirect(path, buffered.descriptor(), size, 1_MiB);
    EXPECT_EQ(access.alignment == 0, access.descriptor == -1);
    EXPECT_EQ(access.alignment == 0, !access.why_not.empty()) << access.why_not;
    if (access.alignment != 0) {
      EXPECT_EQ(access.alignment % 4096, 0u);
      close(access.descriptor);
    }
  }
}

TEST(DirectAccessTest, AnAlignmentThatTheCallerCannotKeepIsAReason) {
  const TemporaryFolder folder;
  WriteAll(folder / "file", std::string(8192, 'x'));
  ASSERT_OK_AND_ASSIGN(const File buffered, File::OpenForRead(folder / "file"));
  DirectAccess access = OpenDirect(folder / "file", buffered.descriptor(), 8192, 1_MiB);
  if (access.alignment == 0) GTEST_SKIP() << "the temporary folder " << access.why_not;
  close(access.descriptor);
  access = OpenDirect(folder / "file", buffered.descriptor(), 8192, 512);
  EXPECT_EQ(access.descriptor, -1);
  EXPECT_THAT(access.why_not, testing::HasSubstr("repack it with --block-size"));
}

TEST(DirectAccessTest, AReplacedFileIsNoticed) {
  const TemporaryFolder folder;
  WriteAll(folder / "file", "one");
  WriteAll(folder / "other", "two");
  ASSERT_OK_AND_ASSIGN(const File buffered, File::OpenForRead(folder / "file"));
  const DirectAccess access = OpenDirect(folder / "other", buffered.descriptor(), 3, 64_KiB);
  EXPECT_EQ(access.alignment, 0u);
  EXPECT_FALSE(access.why_not.empty());
}

}  // namespace
}  // namespace picchio
