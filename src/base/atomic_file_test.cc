#include "base/atomic_file.h"

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
