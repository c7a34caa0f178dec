#include "format/float16.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(Bf16, WidensExactly) {
  // The value from its fields, in F64.
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>((bits >> 7) & 0xff);
    const int fraction = static_cast<int>(bits & 0x7f);
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    const float value = Bf16ToF32(static_cast<uint16_t>(bits));
    if (exponent == 255) {
      EXPECT_EQ(std::isnan(value), fraction != 0);
      EXPECT_EQ(std::isinf(value), fraction == 0);
    } else {
      const double expected =
          exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(128 + fraction, exponent - 134);
      ASSERT_EQ(static_cast<double>(value), sign * expected) << bits;
    }
    EXPECT_EQ(std::signbit(value), sign < 0);
  }
}

TEST(Bf16, EveryValueComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto narrow = static_cast<uint16_t>(bits);
    const bool is_nan = (bits & 0x7fff) > 0x7f80;
    ASSERT_EQ(F32ToBf16(Bf16ToF32(narrow)), is_nan ? bits | 0x40 : bits);
  }
}

TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    // Half of the values are ties or next to one.
    auto bits = static_cast<uint32_t>(random());
    if (i % 2 == 0) bits = (bits & 0xffff0000U) + 0x7fff + static_cast<uint32_t>(i) / 2 % 3;
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value)) continue;
    const auto down = static_cast<uint16_t>(bits >> 16);
    const auto up = static_cast<uint16_t>(down + 1);
    // Beyond the largest finite value the next step counts as a value of the same spacing.
    const double up_value =
        std::isinf(Bf16ToF32(up)) ? std::copysign(std::ldexp(1.0, 128), value) : Bf16ToF32(up);
    const double to_down = std::abs(static_cast<double>(value) - Bf16ToF32(down));
    const double to_up = std::abs(static_cast<double>(value) - up_value);
    const uint16_t expected = to_down < to_up   ? down
                              : to_up < to_down ? up
                              : down % 2 == 0   ? down
                                                : up;
    ASSERT_EQ(F32ToBf16(value), expected) << value;
  }
}

TEST(Bf16, NanIsKeptAndQuiet) {
  // Only low fraction bits are set: cutting them off would leave an infinity.
  EXPECT_EQ(F32ToBf16(std::bit_cast<float>(0x7f800001U)), 0x7fc0);
  EXPECT_EQ(F32ToBf16(std::bit_cast<float>(0xffffffffU)), 0xffff);
  EXPECT_EQ(F32ToBf16(std::numeric_limits<float>::infinity()), 0x7f80);
  EXPECT_EQ(F32ToBf16(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_EQ(F32ToBf16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(F16, WidensExactly) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>((bits >> 10) & 0x1f);
    const int fraction = static_cast<int>(bits & 0x3ff);
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    const float value = F16ToF32(static_cast<uint16_t>(bits));
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), fraction != 0);
      EXPECT_EQ(std::isinf(value), fraction == 0);
    } else {
      const double expected =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      ASSERT_EQ(static_cast<double>(value), sign * expected) << bits;
    }
    EXPECT_EQ(std::signbit(value), sign < 0);
  }
}

}  // namespace
}  // namespace picchio
