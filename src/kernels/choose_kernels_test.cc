#include "kernels/choose_kernels.h"

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(ChooseKernelsTest, TakesTheNamedOrTheFastest) {
  ASSERT_OK_AND_ASSIGN(const Kernels* best, ChooseKernels(""));
  EXPECT_EQ(best, &BestKernels());
  for (const Kernels* kernels : AvailableKernels()) {
    ASSERT_OK_AND_ASSIGN(const Kernels* chosen,
                         ChooseKernels(InstructionSetName(kernels->instruction_set)));
    EXPECT_EQ(chosen, kernels);
  }
}

TEST(ChooseKernelsTest, SaysWhatThereIs) {
  EXPECT_THAT(ChooseKernels("sse9"),
              Fails(Code::kInvalidArgument, "'sse9' is not known; this machine runs scalar"));
  for (const InstructionSet set : kInstructionSets) {
    if (CpuHas(set)) continue;
    EXPECT_THAT(ChooseKernels(InstructionSetName(set)),
                Fails(Code::kUnsupported, "it runs scalar"));
  }
}

}  // namespace
}  // namespace picchio
