#include "base/huge_pages.h"

#include <sys/mman.h>

#include "base/page_memory.h"
#include "base/units.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// As proc(5) describes the file, shortened to a few of its fields.
constexpr std::string_view kSmaps =
    "00400000-00600000 rw-p 00000000 00:00 0 \n"
    "Size:               2048 kB\n"
    "KernelPageSize:        4 kB\n"
    "AnonHugePages:         0 kB\n"
    "7f0000000000-7f0001000000 rw-p 00000000 00:00 0                          [anon]\n"
    "Size:              16384 kB\n"
    "Rss:               16384 kB\n"
    "AnonHugePages:      8192 kB\n"
    "ShmemPmdMapped:        0 kB\n"
    "VmFlags: rd wr mr mw me dc ac sd hg \n"
    "7f0002000000-7f0002400000 rw-p 00000000 00:0f 17 /anon_hugepage (deleted)\n"
    "Size:               4096 kB\n"
    "KernelPageSize:     2048 kB\n"
    "AnonHugePages:         0 kB\n"
    "Private_Hugetlb:    4096 kB\n";

TEST(HugePagesTest, CountsByMapping) {
  EXPECT_EQ(HugeBytesInSmaps(kSmaps, 0x400000, 0x600000), 0u);
  EXPECT_EQ(HugeBytesInSmaps(kSmaps, 0x7f0000000000, 0x7f0001000000), 8_MiB);
  EXPECT_EQ(HugeBytesInSmaps(kSmaps, 0x7f0000000000, 0x7f0000400000), 2_MiB);  // In proportion.
  EXPECT_EQ(HugeBytesInSmaps(kSmaps, 0x7f0002000000, 0x7f0002200000), 2_MiB);
  EXPECT_EQ(HugeBytesInSmaps(kSmaps, 0x7f0000000000, 0x7f0002400000), 12_MiB);
  EXPECT_EQ(HugeBytesInSmaps(kSmaps, 0x7f0003000000, 0x7f0004000000), 0u);
}

TEST(HugePagesTest, AnyTextIsRead) {
  for (const std::string_view text :
       {"", "\n\n", "-", "12-", "5-3 x\nAnonHugePages: 4 kB", "0-ffffffffffffffff\nAnonHugePages:",
        "0-1000\nAnonHugePages: 99999999999999999999 kB", "AnonHugePages: 4 kB"}) {
    EXPECT_LE(HugeBytesInSmaps(text, 0, 4096), 4096u) << text;
  }
}

TEST(HugePagesTest, SmallPagesAreNotHuge) {
  ASSERT_OK_AND_ASSIGN(const PageMemory memory, PageMemory::Allocate(64_KiB));
  EXPECT_EQ(HugeBytes(memory.bytes()), 0u);
}

TEST(HugePagesTest, LargeMemoryIsHugeWhereTheSystemGivesSuchPages) {
  if (ReadAll("/sys/kernel/mm/transparent_hugepage/enabled").find("[never]") != std::string::npos) {
    GTEST_SKIP() << "transparent huge pages are switched off";
  }
  ASSERT_OK_AND_ASSIGN(const PageMemory memory, PageMemory::Allocate(33_MiB));
  EXPECT_EQ(memory.size(), 34_MiB);
  EXPECT_GT(HugeBytes(memory.bytes()), 0u);
  EXPECT_LE(HugeBytes(memory.bytes()), memory.size());
}

}  // namespace
}  // namespace picchio
