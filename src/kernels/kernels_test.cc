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

// The scalar table with one function that does nothing and returns zero.
template <typename R, typename... Arguments>
Kernels Without(R (*Kernels::*member)(Arguments...)) {
  Kernels table = *KernelsFor(InstructionSet::kScalar);
  table.*member = [](Arguments...) -> R { return R(); };
  return table;
}

// The check must be able to fail, in every function.
TEST(KernelsTest, AWrongTableIsFound) {
  const Kernels& scalar = *KernelsFor(InstructionSet::kScalar);
  const auto expect_found = [&scalar](const char* function, const Kernels& wrong) {
    EXPECT_FALSE(EqualityCheck(wrong, scalar).messages().empty()) << function;
  };
  expect_found("quantize", Without(&Kernels::quantize));
  expect_found("matmul_int4", Without(&Kernels::matmul_int4));
  expect_found("matmul_int8", Without(&Kernels::matmul_int8));
  expect_found("matmul_mxfp4", Without(&Kernels::matmul_mxfp4));
  expect_found("matmul_bf16", Without(&Kernels::matmul_bf16));
  expect_found("matmul_f32", Without(&Kernels::matmul_f32));
  expect_found("matmul_int8_f32", Without(&Kernels::matmul_int8_f32));
  expect_found("matmul_int4_f32", Without(&Kernels::matmul_int4_f32));
  expect_found("matmul_mxfp4_f32", Without(&Kernels::matmul_mxfp4_f32));
  expect_found("rms_norm", Without(&Kernels::rms_norm));
  expect_found("rope", Without(&Kernels::rope));
  expect_found("swiglu", Without(&Kernels::swiglu));
  expect_found("swiglu_clamped", Without(&Kernels::swiglu_clamped));
  expect_found("attention", Without(&Kernels::attention));
  expect_found("exp", Without(&Kernels::exp));
  expect_found("add", Without(&Kernels::add));
  expect_found("scale", Without(&Kernels::scale));
  expect_found("add_scaled", Without(&Kernels::add_scaled));
  expect_found("all_finite", Without(&Kernels::all_finite));

  // In the last bit of one value, and in what is stored beside the codes.
  Kernels wrong = scalar;
  wrong.attention = [](const AttentionTask& task, float* scratch) {
    KernelsFor(InstructionSet::kScalar)->attention(task, scratch);
    task.out[0] = std::nextafter(task.out[0], 1e30F);
  };
  expect_found("a bit of attention", wrong);
  wrong = scalar;
  wrong.quantize = [](F32Rows x, const QuantizedRows& out) {
    const int32_t kept = out.offsets(0)[0];
    KernelsFor(InstructionSet::kScalar)->quantize(x, out);
    out.offsets(0)[0] = kept;
  };
  expect_found("an offset that is not written", wrong);
}

}  // namespace
}  // namespace picchio
