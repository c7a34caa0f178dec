#include "base/cgroup.h"

#include <filesystem>

#include "support/test_support.h"

namespace picchio {
namespace {

using testing::ElementsAre;

// Both hierarchies, as hybrid systems mount them. memory_info_test.cc and cpu_quota_test.cc have
// more of them.
TEST(CgroupFolders, FromTheGroupUpToEachMountPoint) {
  TemporaryFolder root;
  std::filesystem::create_directories(root / "proc/self");
  WriteAll(root / "proc/self/mountinfo",
           "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
           "35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
           "36 31 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  WriteAll(root / "proc/self/cgroup", "5:cpu,cpuacct:/a/b\n4:memory:/\n0::/c\n");
  const auto paths = [&](std::string_view controller) {
    std::vector<std::string> found;
    for (const CgroupFolder& folder : CgroupFolders(root.path(), controller)) {
      EXPECT_EQ(folder.v2, folder.path.starts_with("/sys/fs/cgroup/unified"));
      found.push_back(folder.path);
    }
    return found;
  };
  EXPECT_THAT(paths("cpu"),
              ElementsAre("/sys/fs/cgroup/unified/c", "/sys/fs/cgroup/unified",
                          "/sys/fs/cgroup/cpu/a/b", "/sys/fs/cgroup/cpu/a", "/sys/fs/cgroup/cpu"));
  EXPECT_THAT(paths("memory"), ElementsAre("/sys/fs/cgroup/unified/c", "/sys/fs/cgroup/unified",
                                           "/sys/fs/cgroup/memory"));
}

TEST(CgroupFolders, NoneWithoutProc) {
  TemporaryFolder root;
  EXPECT_TRUE(CgroupFolders(root.path(), "cpu").empty());
}

TEST(LeadingNumber, StopsWhereTheDigitsStop) {
  EXPECT_EQ(LeadingNumber("12 34\n"), 12u);
  EXPECT_EQ(LeadingNumber("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", "max", "-1", " 1", "18446744073709551616"}) {
    EXPECT_EQ(LeadingNumber(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace picchio
