// How much memory this process may still take: the machine's, and what its control groups leave of
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

// The limit that leaves the least room among those of the process's memory cgroup and its
// ancestors.
struct CgroupMemory {
  uint64_t limit_bytes = 0;
  // Charged to the group, but for file pages, which the kernel gives up when memory is asked for.
  uint64_t used_bytes = 0;
  std::string limit_file{};  // Where the limit stands: what a user would have to raise.
};

struct MemoryInfo {
  uint64_t physical_bytes = 0;
  uint64_t available_bytes = 0;  // The kernel's estimate of what can be had without swapping.
  std::optional<CgroupMemory> cgroup{};  // Absent where no limit is set.
  // All groups with a limit below the machine's memory, the process's own first.
  std::vector<CgroupMemory> groups{};
  // Of this process, in hugetlb pages: no memory cgroup counts them, so they come off its limit
  // here.
  uint64_t hugetlb_bytes = 0;

  // Bytes that this process may still allocate: the least of what the machine and the cgroup have.
  uint64_t FreeForUs() const;
};

// Reads /proc/meminfo, /proc/self/{status,cgroup,mountinfo} and the control files of cgroup v1, v2
// or both (hybrid: whichever of the two has the memory controller), `memory.high` like
// `memory.max`. `root` is where "/" is, for tests. Fails only where /proc/meminfo says nothing:
// control groups that cannot be read count as none.
Result<MemoryInfo> ReadMemoryInfo(const Path& root = "/");

}  // namespace picchio
