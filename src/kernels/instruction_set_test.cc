#include "kernels/instruction_set.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace picchio {
namespace {

// What the kernel says of the first CPU.
std::set<std::string> CpuFlags() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("flags", 0) != 0 && line.rfind("Features", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string flag; words >> flag;) flags.insert(flag);
    return flags;
  }
  return {};
}

TEST(InstructionSetTest, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (const InstructionSet set : kInstructionSets) names.insert(InstructionSetName(set));
  EXPECT_EQ(names.size(), kInstructionSets.size());
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(InstructionSetTest, AgreesWithTheKernel) {
  const auto flags = CpuFlags();
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo names no flags";
  const auto all = [&](std::initializer_list<const char*> wanted) {
    for (const char* flag : wanted) {
      if (!flags.contains(flag)) return false;
    }
    return true;
  };
  EXPECT_TRUE(CpuHas(InstructionSet::kScalar));
  EXPECT_EQ(CpuHas(InstructionSet::kAvx2), all({"avx2", "fma"}));
  EXPECT_EQ(CpuHas(InstructionSet::kAvxVnni), all({"avx2", "fma", "avx_vnni"}));
  EXPECT_EQ(CpuHas(InstructionSet::kAvx512),
            all({"avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}));
  EXPECT_EQ(CpuHas(InstructionSet::kNeon), all({"asimddp"}));
}

}  // namespace
}  // namespace picchio
