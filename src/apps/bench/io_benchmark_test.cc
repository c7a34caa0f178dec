#include "apps/bench/io_benchmark.h"

#include "apps/bench/io_bench_report.h"
#include "apps/bench/io_check.h"
#include "apps/pack/store_test_support.h"
#include "apps/run/store_models_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::HasSubstr;

class IoBenchTest : public testing::Test {
 protected:
  void SetUp() override {
    MakeModelWithoutStore("qwen3_moe_tiny", PayloadKind::kInt4, folder());
    store_ = StoreWriter(folder()).Make(3);
    WriteAll(store(), store_.Bytes());
    ASSERT_OK(File::OpenForWrite(store()).value().Sync());
  }

  Path folder() const { return temporary_ / "model"; }
  Path store() const { return folder() / "experts.picchioflat"; }
  Result<IoBenchReport> Run(IoBenchOptions options) {
    return RunIoBench(store(), options, kGoOn,
                      [this](const IoBenchForecast& forecast) { forecast_ = forecast; });
  }

  TemporaryFolder temporary_;
  TestStore store_;
  IoBenchForecast forecast_;
};

TEST_F(IoBenchTest, EveryWayAtEveryDepthInEveryRound) {
  const size_t num_records = store_.records.size();
  ASSERT_OK_AND_ASSIGN(const IoBenchReport report,
                       Run({.depths = {4, 1}, .rounds = 3, .seconds = 60}));
  EXPECT_TRUE(report.whole_store());
  EXPECT_EQ(report.num_records, num_records);
  EXPECT_EQ(report.record_bytes % 4096, 0U);
  ASSERT_EQ(report.series.size(), 4U);
  int num_measured = 0;
  for (const IoBenchSeries& series : report.series) {
    const std::string way(IoWayName(series.way));
    if (!PastThePageCache(series.way)) {
      EXPECT_EQ(series.unavailable, "") << way;
    }
    if (!series.unavailable.empty()) {
      EXPECT_TRUE(series.points.empty());
      continue;
    }
    ++num_measured;
    ASSERT_EQ(series.points.size(), 2U) << way;
    EXPECT_EQ(series.points[0].depth, 1);
    for (const IoBenchPoint& point : series.points) {
      // The whole set in each of the rounds.
      EXPECT_EQ(point.num_reads, 3 * num_records) << way;
      EXPECT_GT(point.bytes_per_second.least, 0);
      EXPECT_LE(point.bytes_per_second.least, point.bytes_per_second.median);
      EXPECT_LE(point.bytes_per_second.median, point.bytes_per_second.greatest);
      EXPECT_GT(point.p50, 0);
      EXPECT_LE(point.p50, point.p90);
      EXPECT_LE(point.p90, point.p99);
      EXPECT_LE(point.p99, point.max);
    }
  }
  EXPECT_EQ(forecast_.num_measurements, num_measured * 2 * 3);
  EXPECT_TRUE(forecast_.whole_store);
  EXPECT_GT(forecast_.seconds, 0);

  const Json json = IoBenchJson(report);
  EXPECT_EQ(json["records"], num_records);
  EXPECT_EQ(json["ways"].size(), 4U);
  EXPECT_EQ(json["ways"][2]["points"][1]["depth"], 4);
  EXPECT_THAT(IoBenchText(report), HasSubstr("the whole store is read"));
  const std::string html = IoBenchHtml(report);
  EXPECT_TRUE(html.ends_with("</html>\n"));
  EXPECT_THAT(html, HasSubstr("buffered-warm"));
}

TEST_F(IoBenchTest, ASetIsChosenFromALargeStore) {
  ASSERT_OK_AND_ASSIGN(
      const IoBenchReport report,
      Run({.ways = {IoWay::kBuffered}, .depths = {1, 64}, .rounds = 1, .set_bytes = 5}));
  EXPECT_EQ(report.num_records, 1U);
  EXPECT_FALSE(report.whole_store());
  EXPECT_FALSE(forecast_.whole_store);
  ASSERT_EQ(report.series[0].points.size(), 1U);
  EXPECT_EQ(report.series[0].points[0].num_reads, 1U);
  EXPECT_THAT(report.notes, testing::Contains("depth 64 is left out: the set has 1 records"));
}

TEST_F(IoBenchTest, RefusesInWords) {
  EXPECT_THAT(Run({.depths = {}}), Fails(Code::kInvalidArgument, "nothing to measure"));
  EXPECT_THAT(Run({.depths = {0}}), Fails(Code::kInvalidArgument, "nothing to measure"));
  const std::atomic<bool> stop{true};
  EXPECT_THAT(RunIoBench(store(), {}, stop, {}), Fails(Code::kCancelled, "stopped"));
  WriteAll(store(), "no store");
  EXPECT_THAT(Run({}), Fails(Code::kCorrupt, "experts.picchioflat"));
}

TEST_F(IoBenchTest, EveryWayGivesTheModelsBytes) {
  std::vector<IoWay> ways = {IoWay::kBuffered};
  for (const IoWay way : {IoWay::kDirect, IoWay::kUring}) {
    if (OpenIoWay(store(), way, {}).has_value()) ways.push_back(way);
  }
  ASSERT_OK_AND_ASSIGN(const uint64_t checked,
                       CheckRecordsInEveryWay(store(), folder(), ways, kGoOn));
  EXPECT_EQ(checked, store_.records.size());
  std::string bytes = store_.Bytes();
  EXPECT_GT(DamageEveryThirdRecord(store_, bytes), 0U);
  WriteAll(store(), bytes);
  EXPECT_THAT(CheckRecordsInEveryWay(store(), folder(), ways, kGoOn),
              Fails(Code::kCorrupt, "read by buffered: layer "));
}

IoBenchSeries SeriesOf(std::vector<std::pair<int, double>> rates) {
  IoBenchSeries series{.way = IoWay::kUring};
  for (const auto& [depth, rate] : rates) {
    series.points.push_back(
        {.depth = depth, .bytes_per_second = {.median = rate}, .storage_share = 1});
  }
  FindPeak(series);
  return series;
}

TEST(IoBenchReportTest, PeakAndPlateau) {
  IoBenchSeries series = SeriesOf({{1, 1e9}, {2, 1.8e9}, {4, 1.95e9}, {8, 2e9}, {16, 1.5e9}});
  EXPECT_EQ(series.peak_depth, 8);
  EXPECT_EQ(series.plateau_depth, 4);
  EXPECT_EQ(SeriesOf({{1, 5}, {2, 5}}).plateau_depth, 1);
  EXPECT_EQ(SeriesOf({{1, 5}, {2, 5}}).peak_depth, 1);
  EXPECT_EQ(SeriesOf({}).Peak(), nullptr);

  IoBenchReport report{.series = {SeriesOf({{1, 1e9}}), series}};
  report.series[0].way = IoWay::kDirect;
  EXPECT_EQ(IoBenchVerdict(report),
            "Peak 2.00 GB/s by uring at depth 8; at depth 4 already it was within 5 % of that. At "
            "least 99 % of the bytes came from the drive, by the kernel's count.");
}

TEST(IoBenchReportTest, ADriveIsOnlyClaimedWhereTheKernelSaysSo) {
  IoBenchReport report{.series = {SeriesOf({{1, 1e9}, {2, 2e9}})}};
  report.series[0].points[0].storage_share = 0.989;
  EXPECT_FALSE(report.series[0].FromStorage());
  EXPECT_THAT(IoBenchVerdict(report), HasSubstr("no figure of the drive"));
  EXPECT_THAT(IoBenchText(report), HasSubstr("it gave only 98.9 % of the bytes"));
  report.series[0].points[0].storage_share.reset();
  EXPECT_FALSE(report.series[0].FromStorage());
  report.series[0].points[0].storage_share = 0.99;
  EXPECT_TRUE(report.series[0].FromStorage());
  report.series[0].way = IoWay::kBuffered;
  EXPECT_THAT(IoBenchVerdict(report), HasSubstr("Nothing here can be read past the page cache"));
}

TEST(IoBenchReportTest, WarmMeansFromMemory) {
  IoBenchReport report{.series = {SeriesOf({{1, 1e9}})}};
  report.series[0].way = IoWay::kBufferedWarm;
  EXPECT_THAT(IoBenchText(report), HasSubstr("not warm, 100.0 % of the bytes came from storage"));
  report.series[0].points[0].storage_share = 0;
  EXPECT_THAT(IoBenchText(report), testing::Not(HasSubstr("not warm")));
}

}  // namespace
}  // namespace picchio
