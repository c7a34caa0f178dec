#include "io/request_limits.h"

#include <filesystem>

#include "support/test_support.h"

namespace picchio {
namespace {

class RequestLimitsTest : public testing::Test {
 protected:
  // A disk 8:0 with a partition 8:1, laid out as the kernel does.
  void Make(std::string_view max_sectors_kb, std::string_view max_segments,
            std::string_view max_segment_size) {
    const Path disk = root_.path() / "sys/devices/disk";
    std::filesystem::create_directories(disk / "queue");
    std::filesystem::create_directories(disk / "part1");
    std::filesystem::create_directories(root_.path() / "sys/dev/block");
    std::filesystem::create_directory_symlink(disk, root_.path() / "sys/dev/block/8:0");
    std::filesystem::create_directory_symlink(disk / "part1", root_.path() / "sys/dev/block/8:1");
    WriteAll(disk / "queue/max_sectors_kb", max_sectors_kb);
    WriteAll(disk / "queue/max_segments", max_segments);
    WriteAll(disk / "queue/max_segment_size", max_segment_size);
  }
  RequestLimits Limits(unsigned minor) { return BlockDeviceLimits(8, minor, root_.path()); }

  TemporaryFolder root_;
};

TEST_F(RequestLimitsTest, TheLeastOfSectorsAndSegments) {
  Make("1280\n", "127\n", "4294967295\n");  // An NVMe drive: 1.25 MiB, 127 segments.
  for (const unsigned minor : {0u, 1u}) {
    EXPECT_EQ(Limits(minor).small_page_bytes, 256_KiB);  // 508 KiB, as a power of two.
    EXPECT_EQ(Limits(minor).huge_page_bytes, 1_MiB);
  }
}

TEST_F(RequestLimitsTest, SegmentsMayBeSmallerThanHugePages) {
  Make("2147483647\n", "254\n", "65536\n");
  EXPECT_EQ(Limits(0).small_page_bytes, 512_KiB);
  EXPECT_EQ(Limits(0).huge_page_bytes, 8_MiB);
}

TEST_F(RequestLimitsTest, WhatSaysNothingLimitsNothing) {
  EXPECT_EQ(Limits(0).small_page_bytes, 1_MiB);
  EXPECT_EQ(Limits(0).huge_page_bytes, 256_MiB);
  Make("nonsense", "", "");
  EXPECT_EQ(Limits(0).small_page_bytes, 1_MiB);
}

TEST_F(RequestLimitsTest, AbsurdFiguresAreBounded) {
  Make("0\n", "0\n", "0\n");
  EXPECT_EQ(Limits(0).small_page_bytes, 64_KiB);
  EXPECT_EQ(Limits(0).huge_page_bytes, 64_KiB);
  WriteAll(root_.path() / "sys/devices/disk/queue/max_sectors_kb", "18446744073709551615");
  WriteAll(root_.path() / "sys/devices/disk/queue/max_segments", "18446744073709551615");
  WriteAll(root_.path() / "sys/devices/disk/queue/max_segment_size", "18446744073709551615");
  EXPECT_EQ(Limits(0).huge_page_bytes, 256_MiB);
}

}  // namespace
}  // namespace picchio
