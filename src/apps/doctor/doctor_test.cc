#include "apps/doctor/doctor.h"

#include <filesystem>

#include "apps/doctor/recorded_machine_test_support.h"
#include "base/units.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::HasSubstr;

const ReadRateOptions kShort{.seconds = 0.02, .temporary_bytes = 64_MiB};

// A file that is large enough to be measured, and takes no time to make.
void MakeLargeFile(const Path& path) {
  WriteAll(path, "");
  std::filesystem::resize_file(path, 65_MiB);
}

TEST(MeasureReadRateTest, ReadsALargeFileOrTheLargestOfAFolder) {
  const TemporaryFolder folder;
  MakeLargeFile(folder / "large");
  WriteAll(folder / "small", "x");
  EXPECT_EQ(LargeFileAt(folder / "large"), folder / "large");
  EXPECT_EQ(LargeFileAt(folder.path()), folder / "large");
  EXPECT_EQ(LargeFileAt(folder / "small"), std::nullopt);
  for (const IoKind kind : {IoKind::kAuto, IoKind::kBuffered}) {
    ReadRateOptions options = kShort;
    options.kind = kind;
    ASSERT_OK_AND_ASSIGN(const MeasuredReadRate rate,
                         MeasureStorageReadRate(folder.path(), options));
    EXPECT_GT(rate.bytes_per_second, 0);
    EXPECT_EQ(rate.source, (folder / "large").string());
    EXPECT_GE(rate.read_bytes, options.read_bytes);
  }
}

TEST(MeasureReadRateTest, WritesATemporaryFileElseAndLeavesNothing) {
  const TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(const MeasuredReadRate rate, MeasureStorageReadRate(folder.path(), kShort));
  EXPECT_GT(rate.bytes_per_second, 0);
  EXPECT_THAT(rate.source, HasSubstr("a temporary file in"));
  EXPECT_TRUE(rate.temporary);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DoctorTest, ALineForEachPartOfTheMachine) {
  const TemporaryFolder folder;
  MakeLargeFile(folder / "large");
  ASSERT_OK_AND_ASSIGN(const DoctorReport report, Examine(folder.path(), kShort));
  std::vector<std::string> subjects;
  for (const Finding& finding : report.findings) {
    subjects.push_back(finding.subject);
    EXPECT_FALSE(finding.found.empty()) << finding.subject;
    EXPECT_NE(finding.health, Health::kWillNotWork) << finding.found;
  }
  EXPECT_THAT(subjects,
              testing::IsSupersetOf({"kernel", "CPU", "memory", "huge pages", "locked memory",
                                     "io_uring", "file system", "O_DIRECT", "drive", "bandwidth"}));
  const std::string text = DoctorText(report);
  EXPECT_THAT(text, HasSubstr("kernel"));
  const Json json = DoctorJson(report);
  EXPECT_EQ(json["findings"].size(), report.findings.size());
  EXPECT_EQ(json["findings"][0]["health"], "ok");
  EXPECT_GT(json["read_rate"]["bytes_per_second"], 0);
}

TEST(DoctorTest, RemediesStandBelowTheirLine) {
  DoctorReport report;
  report.findings = {
      {.subject = "a", .found = "fine"},
      {.subject = "bcd", .health = Health::kCouldBeBetter, .found = "slow", .remedy = "mend it"}};
  EXPECT_EQ(DoctorText(report),
            "ok               a    fine\n"
            "could be better  bcd  slow\n"
            "                      -> mend it\n");
}

TEST(DoctorTest, RefusesWhatIsNotThere) {
  const TemporaryFolder folder;
  EXPECT_THAT(Examine(folder / "none", kShort), Fails(Code::kNotFound, "there is no "));
}

}  // namespace
}  // namespace picchio
