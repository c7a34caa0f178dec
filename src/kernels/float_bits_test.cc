#include "kernels/float_bits.h"

#include <gtest/gtest.h>

#include <cmath>

namespace picchio {
namespace {

TEST(FloatBitsTest, Bf16IsTheUpperHalf) {
  EXPECT_EQ(WidenBf16(0x3fc0), 1.5F);
  EXPECT_EQ(WidenBf16(0x8001), -std::ldexp(1.0F, -133));
}

TEST(FloatBitsTest, E8m0IsAPowerOfTwo) {
  for (int e = 0; e < 255; ++e) {
    EXPECT_EQ(HalfE8m0(static_cast<uint8_t>(e)), std::ldexp(0.5F, e - 127)) << e;
  }
  EXPECT_TRUE(std::isnan(HalfE8m0(255)));
}

// OCP Microscaling Formats 1.0, section 5.3.3: sign, two exponent bits of bias 1, one fraction bit.
TEST(FloatBitsTest, E2m1FollowsItsFields) {
  for (int code = 0; code < 16; ++code) {
    const int exponent = code >> 1 & 3;
    const double fraction = (code & 1) * 0.5;
    const double magnitude = exponent == 0 ? fraction : std::ldexp(1 + fraction, exponent - 1);
    EXPECT_EQ(kTwiceE2m1[code], 2 * (code < 8 ? magnitude : -magnitude)) << code;
  }
}

}  // namespace
}  // namespace picchio
