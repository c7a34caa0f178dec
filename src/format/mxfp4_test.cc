#include "format/mxfp4.h"

#include <cmath>
#include <vector>

#include "format/float16.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using Shape = std::vector<uint64_t>;

// The specification's values of E2M1, by fields: exponent bias 1, denormals for exponent 0.
double E2M1(int code) {
  const int exponent = (code >> 1) & 3;
  const int fraction = code & 1;
  const double magnitude =
      exponent == 0 ? 0.5 * fraction : std::ldexp(1 + 0.5 * fraction, exponent - 1);
  return (code & 8) != 0 ? -magnitude : magnitude;
}

TEST(Mxfp4, EveryCodeWithEveryScale) {
  std::vector<std::byte> block(kMxfp4BlockBytes);
  for (int code = 0; code < 16; ++code) {
    EXPECT_EQ(E2M1ToF32(static_cast<uint8_t>(code)), E2M1(code));
    for (int e = 0; e < 255; ++e) {
      // The code in the low nibble of one byte and the high nibble of another.
      block[3] = static_cast<std::byte>(code);
      block[9] = static_cast<std::byte>(code << 4);
      const std::vector<std::byte> scale = {static_cast<std::byte>(e)};
      std::vector<float> wide(kMxfp4Block, 1.0F);
      std::vector<uint16_t> narrow(kMxfp4Block, 1);
      const double expected = std::ldexp(E2M1(code), e - 127);
      if (std::abs(expected) >= std::ldexp(1.0, 128)) {
        EXPECT_THAT(DecodeMxfp4(block, scale, 32, 4, wide),
                    Fails(Code::kUnsupported, "row 4 block 0"));
        EXPECT_THAT(DecodeMxfp4(block, scale, 32, 4, narrow),
                    Fails(Code::kUnsupported, "beyond 32-bit floats"));
        continue;
      }
      ASSERT_OK(DecodeMxfp4(block, scale, 32, 0, wide));
      ASSERT_OK(DecodeMxfp4(block, scale, 32, 0, narrow));
      for (size_t i = 0; i < kMxfp4Block; ++i) {
        const double value = i == 6 || i == 19 ? expected : 0;
        ASSERT_EQ(wide[i], value) << code << " " << e;
        ASSERT_EQ(Bf16ToF32(narrow[i]), value) << code << " " << e;
        ASSERT_EQ(std::signbit(wide[i]), std::signbit(value));
        ASSERT_EQ(narrow[i] >> 15, std::signbit(value) ? 1 : 0);
      }
    }
  }
}

TEST(Mxfp4, ScalesArePowersOfTwo) {
  for (int e = 0; e < 255; ++e)
    EXPECT_EQ(E8M0ToF32(static_cast<uint8_t>(e)), std::ldexp(1.0, e - 127));
}

TEST(Mxfp4, RefusesTheReservedScale) {
  const std::vector<std::byte> blocks(6 * kMxfp4BlockBytes);
  std::vector<std::byte> scales(6, std::byte{127});
  std::vector<float> out(6 * kMxfp4Block);
  EXPECT_OK(CheckMxfp4Scales(scales, 64, 0));
  EXPECT_OK(DecodeMxfp4(blocks, scales, 64, 0, out));
  scales[3] = std::byte{255};
  EXPECT_THAT(CheckMxfp4Scales(scales, 64, 100), Fails(Code::kCorrupt, "row 101 block 1"));
  EXPECT_THAT(DecodeMxfp4(blocks, scales, 64, 100, out), Fails(Code::kCorrupt, "row 101 block 1"));
}

}  // namespace
}  // namespace picchio
