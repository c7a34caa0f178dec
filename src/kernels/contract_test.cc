// Every table that runs here against vectors that others made.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "format/npy.h"
#include "kernels/contract_test_support.h"
#include "kernels/kernels.h"
#include "kernels/scalar.h"
#include "support/test_support.h"

namespace picchio {
namespace {

ContractVectors Vectors(size_t n) { return {TestData("fixtures/contract").string(), n}; }

TEST(ContractTest, EveryTableGivesTheVectorsBits) {
  for (const Kernels* kernels : AvailableKernels()) {
    size_t num_compared = 0;
    for (const size_t n : kContractSizes) {
      const ContractVectors vectors = Vectors(n);
      const ContractCheck check(*kernels, vectors);
      EXPECT_THAT(check.messages(), testing::IsEmpty());
      num_compared += check.num_compared();
    }
    EXPECT_GT(num_compared, 200000u) << InstructionSetName(kernels->instruction_set);
  }
}

TEST(ContractTest, PartialSumsAreThoseOfTheVectors) {
  for (const size_t n : kContractSizes) {
    const ContractVectors v = Vectors(n);
    const auto x = v.Read<float>("x", kContractActivations * n);
    ASSERT_FALSE(x.empty());
    const F32Rows rows{x.data(), kContractActivations, n};
    const QuantizedStorage for_int4(ActivationKind::kForInt4, n, kContractActivations);
    const QuantizedStorage for_int8(ActivationKind::kForInt8, n, kContractActivations);
    scalar::Quantize(rows, for_int4.rows());
    scalar::Quantize(rows, for_int8.rows());
    const size_t g = v.num_groups();
    const auto int4_w = v.Read<uint8_t>("int4.w", kContractRows * n / 2);
    const auto int8_w = v.Read<int8_t>("int8.w", kContractRows * n);
    const auto int4_p = v.Read<int32_t>("int4.p", kContractActivations * kContractRows * g * 8);
    const auto int8_p = v.Read<int32_t>("int8.p", kContractActivations * kContractRows * g * 8);
    std::vector<int32_t> int4_actual;
    std::vector<int32_t> int8_actual;
    for (size_t t = 0; t < kContractActivations; ++t) {
      for (size_t r = 0; r < kContractRows; ++r) {
        for (size_t group = 0; group < g; ++group) {
          const size_t begin = group * 64;
          const size_t count = std::min<size_t>(64, n - begin);
          int32_t p[8];
          scalar::Int4Partials(int4_w.data() + (r * n + begin) / 2,
                               for_int4.rows().codes(t) + begin, count, p);
          int4_actual.insert(int4_actual.end(), p, p + 8);
          scalar::Int8Partials(int8_w.data() + r * n + begin, for_int8.rows().codes(t) + begin,
                               count, p);
          int8_actual.insert(int8_actual.end(), p, p + 8);
        }
      }
    }
    EXPECT_EQ(int4_actual, int4_p);
    EXPECT_EQ(int8_actual, int8_p);
  }
}

TEST(ContractTest, Mxfp4PartialSumsAreThoseOfTheVectors) {
  for (const size_t n : kContractSizes) {
    const ContractVectors v = Vectors(n);
    if (!v.has_mxfp4()) continue;
    const auto x = v.Read<float>("x", kContractActivations * n);
    ASSERT_FALSE(x.empty());
    const QuantizedStorage storage(ActivationKind::kForMxfp4, n, kContractActivations);
    scalar::Quantize({x.data(), kContractActivations, n}, storage.rows());
    const size_t b = v.num_blocks();
    const auto w = v.Read<uint8_t>("mxfp4.w", kContractRows * b * 16);
    const auto expected = v.Read<int32_t>("mxfp4.p", kContractActivations * kContractRows * b * 8);
    std::vector<int32_t> actual;
    for (size_t t = 0; t < kContractActivations; ++t) {
      for (size_t r = 0; r < kContractRows; ++r) {
        for (size_t block = 0; block < b; ++block) {
          int32_t p[8];
          scalar::Mxfp4Partials(w.data() + (r * b + block) * 16,
                                storage.rows().codes(t) + block * 32, p);
          actual.insert(actual.end(), p, p + 8);
        }
      }
    }
    EXPECT_EQ(actual, expected);
  }
}

TEST(ContractTest, NormFactorsAreThoseOfTheVectors) {
  for (const size_t n : kContractSizes) {
    const ContractVectors v = Vectors(n);
    const auto x = v.Read<float>("x", kContractActivations * n);
    ASSERT_FALSE(x.empty());
    std::vector<float> actual;
    for (const float eps : {1e-6F, 1e-5F}) {
      for (size_t t = 0; t < kContractActivations; ++t) {
        actual.push_back(scalar::RmsFactor(x.data() + t * n, n, eps));
      }
    }
    EXPECT_EQ(actual, v.Read<float>("rms.r", 2 * kContractActivations));
  }
}

// The checker must be able to fail: a table that is wrong in one function, or vectors that are not
// there, are reported.
TEST(ContractTest, AWrongTableIsFound) {
  Kernels wrong = *KernelsFor(InstructionSet::kScalar);
  wrong.matmul_bf16 = [](const Bf16Matrix& w, RowRange rows, F32Rows x, F32Output y) {
    scalar::MatmulBf16(w, rows, x, y);
    y.data[rows.begin] = std::nextafter(y.data[rows.begin], 1e30F);
  };
  const ContractVectors vectors = Vectors(64);
  EXPECT_FALSE(ContractCheck(wrong, vectors).messages().empty());
  const ContractVectors missing("nowhere", 64);
  EXPECT_FALSE(ContractCheck(*KernelsFor(InstructionSet::kScalar), missing).messages().empty());
}

}  // namespace
}  // namespace picchio
