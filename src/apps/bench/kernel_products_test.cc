#include "apps/bench/kernel_products.h"

#include <cstddef>
#include <string_view>

#include "support/test_support.h"

namespace picchio {
namespace {

// An expert's matrices together are its record, whose size the models' own files give.
TEST(KernelProductsTest, ExpertsHaveTheirRecordsBytes) {
  const auto record_bytes = [](std::string_view model, WeightFormat format) {
    size_t bytes = 0;
    for (const BenchProduct& product : BenchProducts()) {
      if (product.model != model || product.format != format) continue;
      if (product.name != "gate_up" && product.name != "down") continue;
      bytes += product.rows * (product.code_bytes_per_row() + product.scale_bytes_per_row());
    }
    return bytes;
  };
  EXPECT_EQ(record_bytes("qwen3-30b-a3b", WeightFormat::kInt4), 2'654'208U);
  EXPECT_EQ(record_bytes("gpt-oss-20b", WeightFormat::kInt4), 13'996'800U);
  EXPECT_EQ(record_bytes("gpt-oss-20b", WeightFormat::kMxfp4), 13'219'200U);
}

}  // namespace
}  // namespace picchio
