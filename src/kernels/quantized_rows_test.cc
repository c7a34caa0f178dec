#include "kernels/quantized_rows.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace picchio {
namespace {

constexpr ActivationKind kKinds[] = {ActivationKind::kForInt4, ActivationKind::kForInt8,
                                     ActivationKind::kForMxfp4};

TEST(QuantizedRowsTest, RowsAndTheirPartsAreAlignedAndApart) {
  for (const ActivationKind kind : kKinds) {
    for (const size_t cols : {0, 8, 64, 72, 2880}) {
      constexpr size_t kRows = 3;
      const size_t bytes = QuantizedRows::BytesFor(kind, cols, kRows);
      EXPECT_EQ(bytes % 64, 0u);
      std::vector<std::byte> memory(bytes + 64);
      auto* start = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
      const QuantizedRows rows(kind, cols, kRows, start);
      EXPECT_EQ(rows.num_groups(), (cols + GroupSize(kind) - 1) / GroupSize(kind));
      auto* end = reinterpret_cast<const char*>(start);
      for (size_t t = 0; t < kRows; ++t) {
        const size_t groups = rows.num_groups();
        const auto* codes = reinterpret_cast<const char*>(rows.codes(t));
        const auto* offsets = reinterpret_cast<const char*>(rows.offsets(t));
        const auto* scales = reinterpret_cast<const char*>(rows.scales(t));
        EXPECT_EQ(reinterpret_cast<uintptr_t>(codes) % 64, 0u);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(offsets) % 64, 0u);
        EXPECT_GE(codes, end);
        EXPECT_GE(offsets, codes + groups * GroupSize(kind));
        EXPECT_GE(scales, offsets + groups * 8 * sizeof(int32_t));
        end = scales + groups * sizeof(float);
      }
      EXPECT_LE(end, reinterpret_cast<const char*>(start) + bytes);
    }
  }
}

TEST(QuantizedRowsTest, SlicesAreTheSameRows) {
  alignas(64) std::byte memory[4096];
  ASSERT_LE(QuantizedRows::BytesFor(ActivationKind::kForInt4, 128, 5), sizeof(memory));
  const QuantizedRows rows(ActivationKind::kForInt4, 128, 5, memory);
  const QuantizedRows slice = rows.Slice(2, 3);
  EXPECT_EQ(slice.num_rows(), 3u);
  EXPECT_EQ(slice.cols(), 128u);
  EXPECT_EQ(slice.codes(1), rows.codes(3));
  EXPECT_EQ(slice.scales(0), rows.scales(2));
}

TEST(QuantizedRowsTest, EveryElementHasItsPlace) {
  for (const ActivationKind kind : kKinds) {
    std::set<size_t> seen;
    for (size_t i = 0; i < 192; ++i) {
      const size_t index = QuantizedRows::CodeIndex(kind, i);
      EXPECT_EQ(index / GroupSize(kind), i / GroupSize(kind));
      EXPECT_TRUE(seen.insert(index).second);
    }
  }
  // Evens, then odds.
  EXPECT_EQ(QuantizedRows::CodeIndex(ActivationKind::kForInt4, 2), 1u);
  EXPECT_EQ(QuantizedRows::CodeIndex(ActivationKind::kForInt4, 65), 96u);
  EXPECT_EQ(QuantizedRows::CodeIndex(ActivationKind::kForMxfp4, 33), 48u);
  EXPECT_EQ(QuantizedRows::CodeIndex(ActivationKind::kForInt8, 33), 33u);
}

}  // namespace
}  // namespace picchio
