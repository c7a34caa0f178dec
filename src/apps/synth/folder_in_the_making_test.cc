#include "apps/synth/folder_in_the_making.h"

#include "base/atomic_file.h"
#include "base/file_calls_test_support.h"

namespace picchio {
namespace {

TEST(FolderInTheMaking, ASlashAtTheEndNamesTheSameFolder) {
  TemporaryFolder folder;
  for (const char* name : {"made", "slashed/"}) {
    ASSERT_OK_AND_ASSIGN(FolderInTheMaking made, FolderInTheMaking::Create(folder / name));
    EXPECT_EQ(ParentOf(made.path()), folder.path());
    WriteAll(made.path() / "file", "x");
    ASSERT_OK(made.Publish());
  }
  EXPECT_EQ(ReadAll(folder / "made" / "file"), "x");
  EXPECT_EQ(ReadAll(folder / "slashed" / "file"), "x");
}

// Each new level is in its folder before anything is in it, and the folder whole before it has its
// name.
TEST(FolderInTheMaking, SyncsEachLevelAndThenTheName) {
  TemporaryFolder folder;
  const TestDisk disk;
  ASSERT_OK_AND_ASSIGN(FolderInTheMaking made, FolderInTheMaking::Create(folder / "a/b/made"));
  ASSERT_OK(made.Publish());
  const std::string top = folder.path().filename().string();
  EXPECT_THAT(disk.calls(), testing::ElementsAre("sync " + top + "/", "sync a/", "sync b/",
                                                 "sync made.picchio-tmp/",
                                                 "rename made.picchio-tmp made", "sync b/"));
}

}  // namespace
}  // namespace picchio
