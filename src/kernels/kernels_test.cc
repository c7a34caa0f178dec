#include "kernels/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/equality_test_support.h"

namespace picchio {
namespace {

TEST(KernelsTest, TheScalarTableIsAlwaysThereAndFirst) {
  const auto available = AvailableKernels();
  ASSERT_FALSE(available.empty());
  EXPECT_EQ(available[0]->instruction_set, InstructionSet::kScalar);
  EXPECT_EQ(&BestKernels(), available.back());
}

TEST(KernelsTest, TablesAreThoseOfTheCpu) {
  for (const InstructionSet set : kInstructionSets) {
    const Kernels* kernels = KernelsFor(set);
    EXPECT_EQ(kernels != nullptr, CpuHas(set)) << InstructionSetName(set);
    if (kernels == nullptr) continue;
    EXPECT_EQ(kernels->instruction_set, set);
  }
}

TEST(KernelsTest, EveryTableGivesTheScalarBits) {
  const Kernels& scalar = *KernelsFor(InstructionSet::kScalar);
  for (const Kernels* kernels : AvailableKernels()) {
    EXPECT_THAT(EqualityCheck(*kernels, scalar).messages(), testing::IsEmpty());
  }
}

// The check must be able to fail, in every function.
TEST(KernelsTest, AWrongTableIsFound) {
  const Kernels& scalar = *KernelsFor(InstructionSet::kScalar);
  Kernels wrong = scalar;
  wrong.attention = [](const AttentionTask& task, float* scratch) {
    KernelsFor(InstructionSet::kScalar)->attention(task, scratch);
    task.out[0] = std::nextafter(task.out[0], 1e30F);
  };
  EXPECT_FALSE(EqualityCheck(wrong, scalar).messages().empty());
  wrong = scalar;
  wrong.quantize = [](F32Rows x, const QuantizedRows& out) {
    for (size_t i = 0; i < x.num_rows; ++i) {
      for (size_t g = 0; g < out.num_groups(); ++g) out.scales(i)[g] = 1;
    }
  };
  EXPECT_FALSE(EqualityCheck(wrong, scalar).messages().empty());
}

}  // namespace
}  // namespace picchio
