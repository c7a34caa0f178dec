#include "io/transfer_faults.h"

#include <cerrno>
#include <map>

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(TransferFaultsTest, WithoutAPlanNothingChanges) {
  TransferFaults faults({});
  for (const int64_t result : {int64_t{0}, int64_t{4096}, int64_t{-EIO}}) {
    EXPECT_EQ(faults.Alter(result, true), result);
  }
  EXPECT_EQ(faults.num_altered(), 0u);
}

TEST(TransferFaultsTest, RatesHoldAndTheSeedDecides) {
  const TransferFaultPlan plan{.seed = 7,
                               .interrupt_rate = 0.1,
                               .again_rate = 0.2,
                               .short_rate = 0.3,
                               .direct_error_rate = 0.05};
  TransferFaults faults(plan);
  TransferFaults same(plan);
  std::map<int64_t, int> count;
  int num_short = 0;
  for (int i = 0; i < 10000; ++i) {
    const int64_t result = faults.Alter(65536, true);
    ASSERT_EQ(same.Alter(65536, true), result);
    ASSERT_TRUE(result < 0 || result % 512 == 0);
    if (result > 0 && result < 65536) ++num_short;
    ++count[result];
  }
  // Five standard deviations of a binomial distribution are less than 250.
  EXPECT_NEAR(count[-EINTR], 1000, 250);
  EXPECT_NEAR(count[-EAGAIN], 2000, 250);
  EXPECT_NEAR(count[-EIO], 500, 250);
  EXPECT_NEAR(num_short, 3000, 250);
}

TEST(TransferFaultsTest, OnlyUnbufferedRequestsHaveTheirErrors) {
  TransferFaults faults({.direct_error_rate = 1});
  EXPECT_EQ(faults.Alter(100, false), 100);
  EXPECT_EQ(faults.Alter(4096, true), -EIO);
  EXPECT_EQ(faults.num_altered(), 1u);
}

}  // namespace
}  // namespace picchio
