#include "base/cpu_quota.h"

#include <filesystem>
#include <string_view>

#include "support/test_support.h"

namespace picchio {
namespace {

// A file system root with the files that the kernel would show.
class CpuQuotaTest : public testing::Test {
 protected:
  void Put(std::string_view path, std::string_view text) {
    const Path file = root_.path() / Path(path);
    std::filesystem::create_directories(file.parent_path());
    WriteAll(file, text);
  }

  std::optional<double> Read() const { return CpuQuota(root_.path()); }

  TemporaryFolder root_;
};

TEST_F(CpuQuotaTest, V2TakesTheLeastOfAllAncestors) {
  Put("proc/self/mountinfo", "30 21 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  Put("proc/self/cgroup", "0::/user.slice/app.scope\n");
  EXPECT_EQ(Read(), std::nullopt);
  Put("sys/fs/cgroup/user.slice/app.scope/cpu.max", "max 100000\n");
  EXPECT_EQ(Read(), std::nullopt);
  Put("sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n");
  EXPECT_EQ(Read(), 2.5);
  Put("sys/fs/cgroup/user.slice/app.scope/cpu.max", "75000 50000\n");
  EXPECT_EQ(Read(), 1.5);
  Put("sys/fs/cgroup/user.slice/cpu.max", "50000 100000\n");
  EXPECT_EQ(Read(), 0.5);
  // A sibling's is none of ours.
  Put("sys/fs/cgroup/user.slice/other.scope/cpu.max", "1000 100000\n");
  EXPECT_EQ(Read(), 0.5);
}

TEST_F(CpuQuotaTest, V2InsideAContainer) {
  Put("proc/self/mountinfo", "30 21 0:26 /docker/12 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  Put("proc/self/cgroup", "0::/docker/12\n");
  Put("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(Read(), 3.0);
}

TEST_F(CpuQuotaTest, V1) {
  Put("proc/self/mountinfo",
      "36 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  Put("proc/self/cgroup", "5:cpu,cpuacct:/a/b\n4:memory:/elsewhere\n");
  const std::string cpu = "sys/fs/cgroup/cpu,cpuacct/";
  for (const char* group : {"", "a/", "a/b/"}) {
    Put(cpu + group + "cpu.cfs_period_us", "100000\n");
    Put(cpu + group + "cpu.cfs_quota_us", "-1\n");
  }
  EXPECT_EQ(Read(), std::nullopt);
  Put(cpu + "a/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(Read(), 4.0);
  Put(cpu + "a/b/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(Read(), 1.5);
}

TEST_F(CpuQuotaTest, FilesThatMakeNoSenseCountAsNone) {
  Put("proc/self/mountinfo", "30 21 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  Put("proc/self/cgroup", "0::/\n");
  for (const char* text : {"", "\n", "100000", "100000 ", "100000 0", "0 100000", "-5 100000",
                           "many 100000", "100000 many"}) {
    Put("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(Read(), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace picchio
