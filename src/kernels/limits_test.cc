#include "kernels/limits.h"

#include <gtest/gtest.h>

#include <random>
#include <span>
#include <vector>

namespace picchio {
namespace {

// Whoever leaves out a part of the work gives another sum.
TEST(LimitsTest, AllOfTheWorkIsDone) {
  std::mt19937 random(1);
  std::vector<uint32_t> words(64 * 7);
  uint32_t sum = 0;
  for (uint32_t& word : words) sum += word = static_cast<uint32_t>(random());
  for (const InstructionSet set : kInstructionSets) {
    const CoreLimits* limits = LimitsFor(set);
    EXPECT_EQ(limits != nullptr, CpuHas(set)) << InstructionSetName(set);
    if (limits == nullptr) continue;
    SCOPED_TRACE(InstructionSetName(set));
    EXPECT_EQ(limits->instruction_set, set);
    const auto bytes = std::as_bytes(std::span(words));
    EXPECT_EQ(limits->read(bytes.data(), bytes.size()), sum);
    EXPECT_EQ(limits->read(bytes.data(), 0), 0U);

    const size_t rounds = 11;
    EXPECT_EQ(limits->multiply_bytes(rounds), rounds * limits->integer_ops / 2 * 6);

    // Every number on the way is a multiple of 0.5 below 2^24: exact in any order.
    const size_t chains = limits->float_chains;
    const size_t lanes = limits->float_ops / 2 / chains;
    EXPECT_EQ(lanes, set == InstructionSet::kScalar ? 1U : 16U);
    const double starts = static_cast<double>(lanes * chains * (chains - 1)) / 2;
    EXPECT_EQ(limits->multiply_floats(rounds),
              starts + static_cast<double>(rounds * lanes * chains) * 0.5);
  }
}

}  // namespace
}  // namespace picchio
