#include "apps/commands/flag_checks.h"

#include "support/test_support.h"

namespace picchio {
namespace {

using testing::HasSubstr;

TEST(FlagChecks, WholeNumbers) {
  const FlagCheck check = WholeNumberFrom(-1, 1000);
  for (const char* good : {"-1", "0", "+7", "1000"}) EXPECT_EQ(check(good), "") << good;
  for (const char* bad : {"", "-2", "1001", "1.5", "1e3", "5x", " 5", "nan", "--5", "+-1", "0x10",
                          "99999999999999999999999", "-99999999999999999999999"}) {
    EXPECT_THAT(check(bad), HasSubstr("whole number from -1 to 1000")) << bad;
  }
}

TEST(FlagChecks, Numbers) {
  const FlagCheck check = NumberFrom(0, 2.5);
  for (const char* good : {"0", "-0.0", "2.5", "1e-3", "+1"}) EXPECT_EQ(check(good), "") << good;
  for (const char* bad :
       {"", "-0.001", "2.6", "nan", "-nan", "inf", "1e999", "one", "1,5", "1 ", "auto"}) {
    EXPECT_THAT(check(bad), HasSubstr("number from 0 to 2.5")) << bad;
  }
  EXPECT_EQ(NumberFrom(1, 2, "auto")("auto"), "");
  EXPECT_THAT(NumberFrom(1, 2, "auto")("3"), HasSubstr("nor auto"));
}

TEST(FlagChecks, Seeds) {
  const FlagCheck check = Seed();
  for (const char* good : {"-1", "0", "18446744073709551615"}) EXPECT_EQ(check(good), "") << good;
  for (const char* bad : {"", "-2", "18446744073709551616", "1.0", "random", "nan"}) {
    EXPECT_THAT(check(bad), HasSubstr("below 2^64")) << bad;
  }
}

TEST(FlagChecks, Names) {
  EXPECT_EQ(NotEmpty()("a"), "");
  EXPECT_NE(NotEmpty()(""), "");
}

}  // namespace
}  // namespace picchio
