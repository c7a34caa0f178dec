#include "base/human.h"

#include "base/units.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TEST(FormatBytes, PowersOfTen) {
  EXPECT_EQ(FormatBytes(uint64_t{0}), "0 B");
  EXPECT_EQ(FormatBytes(uint64_t{999}), "999 B");
  EXPECT_EQ(FormatBytes(uint64_t{1000}), "1 kB");
  EXPECT_EQ(FormatBytes(uint64_t{830'400'000}), "830 MB");
  EXPECT_EQ(FormatBytes(uint64_t{999'900'000}), "1.00 GB");
  EXPECT_EQ(FormatBytes(61.25e9), "61.25 GB");
}

TEST(FormatMemory, PowersOfTwo) {
  EXPECT_EQ(FormatMemory(0), "0 B");
  EXPECT_EQ(FormatMemory(1023), "1023 B");
  EXPECT_EQ(FormatMemory(1_KiB), "1.00 KiB");
  EXPECT_EQ(FormatMemory(1536_MiB), "1.50 GiB");
  EXPECT_EQ(FormatMemory(100_MiB), "100 MiB");
  EXPECT_EQ(FormatMemory(1023_MiB), "1.00 GiB");
  EXPECT_EQ(FormatMemory(~uint64_t{0}), "16777216 TiB");
}

TEST(FormatDuration, SecondsMinutesHours) {
  EXPECT_EQ(FormatDuration(-1), "0.0 s");
  EXPECT_EQ(FormatDuration(0.35), "0.3 s");
  EXPECT_EQ(FormatDuration(9.94), "9.9 s");
  EXPECT_EQ(FormatDuration(9.96), "10 s");
  EXPECT_EQ(FormatDuration(59.4), "59 s");
  EXPECT_EQ(FormatDuration(59.6), "1 min 00 s");
  EXPECT_EQ(FormatDuration(200), "3 min 20 s");
  EXPECT_EQ(FormatDuration(3900), "1 h 05 min");
}

}  // namespace
}  // namespace picchio
