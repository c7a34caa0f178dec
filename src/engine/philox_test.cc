#include "engine/philox.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "support/test_support.h"

namespace picchio {
namespace {

using Words4 = std::array<uint32_t, 4>;

// The known-answer vectors for philox4x32 with 10 rounds that come with the authors' Random123.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The first known answer again: its words 1 and 0 are 0xe169c58d66 27e8d5, of which u takes the
// upper 53 bits.
TEST(Philox, UniformTakesTheDocumentedWords) {
  EXPECT_EQ(UniformAt(0, 0), std::ldexp(static_cast<double>(0xe169c58d6627e8d5 >> 11), -53));
  const auto x = Philox4x32({0x89abcdef, 0x01234567, 0, 0}, {0x76543210, 0xfedcba98});
  EXPECT_EQ(UniformAt(0xfedcba9876543210, 0x0123456789abcdef),
            std::ldexp(static_cast<double>((uint64_t{x[1]} << 32 | x[0]) >> 11), -53));
}

// Chi-square over 64 bins of 64,000 draws: the mean is 63 and the standard deviation 11.2, so 63 +
// 5 deviations would be bad luck of one in a million; the draws are fixed.
TEST(Philox, UniformFillsTheUnitIntervalEvenly) {
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{42}, uint64_t{1} << 63}) {
    std::vector<int> bins(64);
    for (uint64_t position = 0; position < 64'000; ++position) {
      const double u = UniformAt(seed, position);
      ASSERT_GE(u, 0.0);
      ASSERT_LT(u, 1.0);
      ++bins[static_cast<size_t>(u * 64)];
    }
    double chi_square = 0;
    for (int count : bins) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
    EXPECT_LT(chi_square, 63 + 5 * 11.2) << "seed " << seed;
  }
}

}  // namespace
}  // namespace picchio
