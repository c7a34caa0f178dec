#include "base/page_memory.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/huge_pages.h"
#include "base/units.h"
#include "support/test_support.h"

namespace picchio {
namespace {

bool AllResident(const PageMemory& memory) {
  const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(memory.size() / page_bytes);
  if (mincore(memory.data(), memory.size(), pages.data()) != 0) return false;
  return std::all_of(pages.begin(), pages.end(),
                     [](unsigned char page) { return (page & 1) != 0; });
}

TEST(PageMemoryTest, IsBackedZeroedAndWritable) {
  for (const uint64_t size : {uint64_t{1}, 4_KiB, 4_KiB + 1, 2_MiB, 5_MiB}) {
    ASSERT_OK_AND_ASSIGN(const PageMemory memory, PageMemory::Allocate(size));
    ASSERT_GE(memory.size(), size);
    EXPECT_EQ(memory.size() % static_cast<size_t>(sysconf(_SC_PAGESIZE)), 0u);
    EXPECT_TRUE(AllResident(memory));
    for (const std::byte byte : memory.bytes()) ASSERT_EQ(byte, std::byte{0});
    std::fill(memory.bytes().begin(), memory.bytes().end(), std::byte{0xa5});
  }
}

TEST(PageMemoryTest, LargeMemoryStartsAtAHugePage) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(const PageMemory memory, PageMemory::Allocate(3_MiB));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 2_MiB, 0u);
  }
}

TEST(PageMemoryTest, NothingIsNothing) {
  ASSERT_OK_AND_ASSIGN(const PageMemory memory, PageMemory::Allocate(0));
  EXPECT_EQ(memory.size(), 0u);
}

TEST(PageMemoryTest, MoreThanTheMachineHasIsRefused) {
  for (const uint64_t size : {uint64_t{1} << 60, ~uint64_t{0}}) {
    EXPECT_THAT(PageMemory::Allocate(size), Fails(Code::kResourceExhausted, "no memory for"));
  }
}

TEST(PageMemoryTest, AForkedChildDoesNotSeeIt) {
  ASSERT_OK_AND_ASSIGN(const PageMemory memory, PageMemory::Allocate(1));
  const pid_t child = fork();
  if (child == 0) {
    unsigned char resident;
    _exit(mincore(memory.data(), memory.size(), &resident) == -1 && errno == ENOMEM ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(PageMemoryTest, Moves) {
  ASSERT_OK_AND_ASSIGN(PageMemory first, PageMemory::Allocate(1));
  std::byte* data = first.data();
  PageMemory second(std::move(first));
  PageMemory third;
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
}

}  // namespace
}  // namespace picchio
