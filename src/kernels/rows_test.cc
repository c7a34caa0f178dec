#include "kernels/rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace picchio {
namespace {

TEST(RowsTest, DecodesBf16) {
  const std::vector<uint16_t> bits = {0, 0, 0x3f80, 0xc040};
  std::vector<float> out(2);
  DecodeRow(Bf16Matrix{bits.data(), 2, 2}, 1, out);
  EXPECT_EQ(out, (std::vector<float>{1, -3}));
}

TEST(RowsTest, DecodesF32) {
  const std::vector<float> values = {1, 2, 3, 4};
  std::vector<float> out(2);
  DecodeRow(F32Matrix{values.data(), 2, 2}, 1, out);
  EXPECT_EQ(out, (std::vector<float>{3, 4}));
}

TEST(RowsTest, DecodesInt8WithOneRounding) {
  const std::vector<int8_t> codes = {1, 2, -127, 3};
  const std::vector<float> scales = {1, 0.1F};
  std::vector<float> out(2);
  DecodeRow(Int8Matrix{codes.data(), scales.data(), 2, 2}, 1, out);
  EXPECT_EQ(out, (std::vector<float>{static_cast<float>(-127 * double{0.1F}),
                                     static_cast<float>(3 * double{0.1F})}));
}

TEST(RowsTest, ArgmaxTakesTheLowestOfEqualOnes) {
  EXPECT_EQ(Argmax(std::vector<float>{-1}), 0u);
  EXPECT_EQ(Argmax(std::vector<float>{-5, 2, 7, 7, 1}), 2u);
  EXPECT_EQ(Argmax(std::vector<float>{-0.0F, 0.0F}), 0u);
}

}  // namespace
}  // namespace picchio
