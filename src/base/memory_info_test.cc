#include "base/memory_info.h"

#include <filesystem>
#include <string>
#include <string_view>

#include "base/units.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// A file system root with the files that the kernel would show. The texts are those of real
// systems, cut to what matters.
class MemoryInfoTest : public testing::Test {
 protected:
  MemoryInfoTest() {
    Put("proc/meminfo",
        "MemTotal:       16777216 kB\nMemFree:          100000 kB\nMemAvailable:   12582912 kB\n");
    Put("proc/self/status", "Name:\tpicchio\nVmRSS:\t    5000 kB\nHugetlbPages:\t       0 kB\n");
  }

  void Put(std::string_view path, std::string_view text) {
    const Path file = root_.path() / Path(path);
    std::filesystem::create_directories(file.parent_path());
    WriteAll(file, text);
  }

  MemoryInfo Read() {
    auto info = ReadMemoryInfo(root_.path());
    PICCHIO_CHECK(info.has_value());
    return std::move(info).value();
  }

  void MountV2(std::string_view mount_root = "/") {
    Put("proc/self/mountinfo",
        "21 26 0:20 / /sys rw,nosuid - sysfs sysfs rw\n"
        "30 21 0:26 " +
            std::string(mount_root) +
            " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }

  TemporaryFolder root_;
};

TEST_F(MemoryInfoTest, WithoutControlGroupsTheMachineCounts) {
  const MemoryInfo info = Read();
  EXPECT_EQ(info.physical_bytes, 16_GiB);
  EXPECT_EQ(info.available_bytes, 12_GiB);
  EXPECT_FALSE(info.cgroup.has_value());
  EXPECT_EQ(info.hugetlb_bytes, 0u);
  EXPECT_EQ(info.FreeForUs(), 12_GiB);
}

TEST_F(MemoryInfoTest, V2TakesTheTightestOfAllAncestors) {
  MountV2();
  Put("proc/self/cgroup", "0::/user.slice/app.scope\n");
  Put("sys/fs/cgroup/user.slice/app.scope/memory.max", "max\n");
  Put("sys/fs/cgroup/user.slice/app.scope/memory.current", "1073741824\n");
  Put("sys/fs/cgroup/user.slice/memory.max", "8589934592\n");
  Put("sys/fs/cgroup/user.slice/memory.high", "max\n");
  Put("sys/fs/cgroup/user.slice/memory.current", "5368709120\n");
  Put("sys/fs/cgroup/user.slice/memory.stat",
      "anon 3221225472\nfile 2147483648\ninactive_anon 7\nactive_file 1073741824\n"
      "inactive_file 1073741824\n");
  MemoryInfo info = Read();
  ASSERT_TRUE(info.cgroup.has_value());
  EXPECT_EQ(info.cgroup->limit_bytes, 8_GiB);
  EXPECT_EQ(info.cgroup->used_bytes, 3_GiB);  // 5 GiB less 2 GiB of file pages.
  EXPECT_EQ(info.cgroup->limit_file, "/sys/fs/cgroup/user.slice/memory.max");
  EXPECT_EQ(info.FreeForUs(), 5_GiB);

  // A limit of the inner group that leaves less room.
  Put("sys/fs/cgroup/user.slice/app.scope/memory.max", "4294967296\n");
  info = Read();
  EXPECT_EQ(info.cgroup->limit_file, "/sys/fs/cgroup/user.slice/app.scope/memory.max");
  EXPECT_EQ(info.FreeForUs(), 3_GiB);

  // Above memory.high the kernel throttles: a limit like the other.
  Put("sys/fs/cgroup/user.slice/app.scope/memory.high", "2147483648\n");
  info = Read();
  EXPECT_EQ(info.cgroup->limit_file, "/sys/fs/cgroup/user.slice/app.scope/memory.high");
  EXPECT_EQ(info.FreeForUs(), 1_GiB);
}

TEST_F(MemoryInfoTest, HugetlbPagesComeOffTheGroupsLimit) {
  MountV2();
  Put("proc/self/cgroup", "0::/job\n");
  Put("sys/fs/cgroup/job/memory.max", "8589934592\n");
  Put("sys/fs/cgroup/job/memory.current", "1073741824\n");
  Put("proc/self/status", "HugetlbPages:\t 2097152 kB\n");
  EXPECT_EQ(Read().hugetlb_bytes, 2_GiB);
  EXPECT_EQ(Read().FreeForUs(), 5_GiB);
  Put("sys/fs/cgroup/job/memory.current", "9000000000\n");  // Above the limit, which has shrunk.
  EXPECT_EQ(Read().FreeForUs(), 0u);
}

TEST_F(MemoryInfoTest, V2InsideAContainer) {
  Put("sys/fs/cgroup/memory.max", "2147483648\n");
  Put("sys/fs/cgroup/memory.current", "1073741824\n");
  // With a cgroup namespace; with the host's path bind-mounted; with the path of somebody else.
  for (auto [mount_root, group] :
       {std::pair("/", "0::/\n"), std::pair("/docker/1234", "0::/docker/1234\n"),
        std::pair("/docker/1234", "0::/docker/12345\n"),
        std::pair("/", "0::/../../docker/1234\n")}) {
    MountV2(mount_root);
    Put("proc/self/cgroup", group);
    EXPECT_EQ(Read().FreeForUs(), 1_GiB) << mount_root << " " << group;
  }
  MountV2("/docker/1234");
  Put("proc/self/cgroup", "0::/docker/1234/inner\n");
  Put("sys/fs/cgroup/inner/memory.max", "1073741824\n");
  EXPECT_EQ(Read().cgroup->limit_file, "/sys/fs/cgroup/inner/memory.max");
}

TEST_F(MemoryInfoTest, V1) {
  Put("proc/self/mountinfo",
      "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
      "36 31 0:32 / /sys/fs/cgroup/memory\\040one rw,relatime - cgroup cgroup rw,memory\n");
  Put("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:hugetlb,memory:/a/b\n1:name=systemd:/\n");
  const std::string memory = "sys/fs/cgroup/memory one/";
  Put(memory + "memory.limit_in_bytes", "9223372036854771712\n");
  Put(memory + "a/memory.limit_in_bytes", "4294967296\n");
  Put(memory + "a/memory.usage_in_bytes", "2147483648\n");
  Put(memory + "a/memory.stat",
      "cache 5\ninactive_file 1\nactive_file 1\ntotal_inactive_file 536870912\n"
      "total_active_file 536870912\n");
  Put(memory + "a/b/memory.limit_in_bytes", "9223372036854771712\n");
  const MemoryInfo info = Read();
  ASSERT_TRUE(info.cgroup.has_value());
  EXPECT_EQ(info.cgroup->limit_file, "/sys/fs/cgroup/memory one/a/memory.limit_in_bytes");
  EXPECT_EQ(info.cgroup->used_bytes, 1_GiB);
  EXPECT_EQ(info.FreeForUs(), 3_GiB);
}

TEST_F(MemoryInfoTest, V1WithoutALimit) {
  Put("proc/self/mountinfo", "36 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  Put("proc/self/cgroup", "4:memory:/\n");
  Put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(Read().cgroup.has_value());
  EXPECT_EQ(Read().FreeForUs(), 12_GiB);
}

// Both hierarchies are mounted; the memory controller belongs to v1, and v2's groups have no
// limits.
TEST_F(MemoryInfoTest, Hybrid) {
  Put("proc/self/mountinfo",
      "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
      "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n");
  Put("proc/self/cgroup", "4:memory:/box\n0::/box\n");
  Put("sys/fs/cgroup/unified/box/cgroup.procs", "1\n");
  Put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "2147483648\n");
  Put("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "536870912\n");
  EXPECT_EQ(Read().cgroup->limit_file, "/sys/fs/cgroup/memory/box/memory.limit_in_bytes");
  EXPECT_EQ(Read().FreeForUs(), 1536_MiB);
}

TEST_F(MemoryInfoTest, FilesThatMakeNoSenseCountAsNone) {
  Put("proc/self/mountinfo",
      "\n30\nx y z - - -\n1 2 3 / /m\\0 rw - cgroup2 c rw\n1 2 3 / /n\\999 rw - cgroup2 c rw\n"
      "1 2 3 /q /sys/fs/cgroup rw - cgroup2 c rw\n");
  Put("proc/self/cgroup", "nothing\n1:2\n0::relative\n");
  Put("sys/fs/cgroup/memory.max", "many\n");
  EXPECT_EQ(Read().FreeForUs(), 12_GiB);
  Put("proc/self/mountinfo", "1 2 3 / /sys/fs/cgroup rw - cgroup2 c rw\n");
  EXPECT_EQ(Read().FreeForUs(), 12_GiB);
  Put("proc/self/cgroup", "");
  EXPECT_EQ(Read().FreeForUs(), 12_GiB);
}

TEST_F(MemoryInfoTest, WithoutMeminfoThereIsNoAnswer) {
  for (const char* text : {"", "MemTotal: 5 kB\n", "MemAvailable: 99999999999999999999 kB\n",
                           "MemTotal:\nMemAvailable: 1 kB\n",
                           "MemTotal: 5 kB\nMemAvailable: 18446744073709551615 kB\n"}) {
    Put("proc/meminfo", text);
    EXPECT_THAT(ReadMemoryInfo(root_.path()), Fails(Code::kUnsupported, "proc/meminfo"));
  }
}

TEST(MemoryInfo, OfThisMachine) {
  ASSERT_OK_AND_ASSIGN(const MemoryInfo info, ReadMemoryInfo());
  EXPECT_GT(info.physical_bytes, 64_MiB);
  EXPECT_LE(info.available_bytes, info.physical_bytes);
  EXPECT_GT(info.FreeForUs(), 0u);
  EXPECT_LE(info.FreeForUs(), info.available_bytes);
}

}  // namespace
}  // namespace picchio
