#include "io/device_statistics.h"

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(DeviceStatisticsTest, CountsAndSaysEachThingOnce) {
  DeviceStatistics statistics;
  statistics.AddDirect(4096);
  statistics.AddDirect(1);
  statistics.AddBuffered(10);
  statistics.AddResumed();
  statistics.AddDirectFailure();
  statistics.Note("b", "second thoughts");
  statistics.Note("a", "first of a");
  statistics.Note("a", "more of a");
  const DeviceReport report = statistics.Report();
  EXPECT_EQ(report.direct_bytes, 4097u);
  EXPECT_EQ(report.buffered_bytes, 10u);
  EXPECT_EQ(report.num_resumed, 1u);
  EXPECT_EQ(report.num_direct_failures, 1u);
  EXPECT_THAT(report.notes, testing::ElementsAre("second thoughts", "first of a"));
}

}  // namespace
}  // namespace picchio
