#include "io/read_rate.h"

#include "base/page_memory.h"
#include "base/units.h"
#include "io/buffered_device.h"
#include "io/faulty_device.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TEST(ReadRateTest, ReadsWhatItWasAskedFor) {
  const TemporaryFolder folder;
  WriteAll(folder / "file", std::string(256_KiB, 'x'));
  const std::vector<Path> paths = {folder / "file"};
  ASSERT_OK_AND_ASSIGN(const auto device, BufferedDevice::Open(paths, {}));
  const ReadLoad load{
      .read_bytes = 20000, .depth = 3, .max_time = std::chrono::hours(1), .max_bytes = 20 * 20000};
  ASSERT_EQ(ReadLoadMemory(load), 3 * 64_KiB);
  ASSERT_OK_AND_ASSIGN(const PageMemory memory, PageMemory::Allocate(ReadLoadMemory(load)));
  ASSERT_OK_AND_ASSIGN(const ReadRate rate, MeasureReadRate(*device, load, memory.bytes()));
  EXPECT_GE(rate.bytes, load.max_bytes);
  EXPECT_LE(rate.bytes, load.max_bytes + 3 * load.read_bytes);
  EXPECT_EQ(rate.latencies.size() * load.read_bytes, rate.bytes);
  EXPECT_EQ(device->Report().buffered_bytes, rate.bytes);
  EXPECT_GT(rate.BytesPerSecond(), 0);
  EXPECT_EQ(memory.data()[0], std::byte{'x'});
}

TEST(ReadRateTest, GivenPlacesAreReadOnceInTheirOrder) {
  const TemporaryFolder folder;
  std::string content(16 * 4096, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i / 4096);
  WriteAll(folder / "file", content);
  const std::vector<Path> paths = {folder / "file"};
  ASSERT_OK_AND_ASSIGN(const auto device, BufferedDevice::Open(paths, {}));
  const uint64_t places[] = {uint64_t{9} * 4096, 0, uint64_t{5} * 4096};
  const ReadLoad load{
      .read_bytes = 4096, .depth = 8, .max_time = std::chrono::hours(1), .offsets = places};
  ASSERT_OK_AND_ASSIGN(const PageMemory memory, PageMemory::Allocate(ReadLoadMemory(load)));
  ASSERT_OK_AND_ASSIGN(const ReadRate rate, MeasureReadRate(*device, load, memory.bytes()));
  EXPECT_EQ(rate.bytes, 3U * 4096);
  EXPECT_EQ(rate.latencies.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(static_cast<uint64_t>(memory.bytes()[i * 64_KiB]), places[i] / 4096);
  }
}

TEST(ReadRateTest, TheTimeEndsIt) {
  const TemporaryFolder folder;
  WriteAll(folder / "file", std::string(4096, 'x'));
  const std::vector<Path> paths = {folder / "file"};
  ASSERT_OK_AND_ASSIGN(const auto device, BufferedDevice::Open(paths, {}));
  const ReadLoad load{.read_bytes = 4096, .max_time = std::chrono::milliseconds(2)};
  ASSERT_OK_AND_ASSIGN(const PageMemory memory, PageMemory::Allocate(ReadLoadMemory(load)));
  EXPECT_OK(MeasureReadRate(*device, load, memory.bytes()));
}

TEST(ReadRateTest, BurstsAreTimedWithoutTheirPauses) {
  const TemporaryFolder folder;
  WriteAll(folder / "file", std::string(64_KiB, 'x'));
  const std::vector<Path> paths = {folder / "file"};
  ASSERT_OK_AND_ASSIGN(const auto device, BufferedDevice::Open(paths, {}));
  const auto pause = std::chrono::milliseconds(20);
  const ReadLoad load{.read_bytes = 4096,
                      .depth = 3,
                      .max_time = std::chrono::hours(1),
                      .max_bytes = 15 * 4096,
                      .pause = pause};
  ASSERT_OK_AND_ASSIGN(const PageMemory memory, PageMemory::Allocate(ReadLoadMemory(load)));
  const auto start = std::chrono::steady_clock::now();
  ASSERT_OK_AND_ASSIGN(const ReadRate rate, MeasureReadRate(*device, load, memory.bytes()));
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - start;
  // Five bursts of three, of which the first does not count.
  EXPECT_EQ(device->Report().num_reads, 15U);
  EXPECT_EQ(rate.bytes, 12U * 4096);
  EXPECT_EQ(rate.latencies.size(), 12U);
  EXPECT_GE(whole.count(), 5 * 0.02);
  EXPECT_LE(rate.seconds, whole.count() - 5 * 0.02);
}

TEST(ReadRateTest, WhatIsStoppedEnds) {
  const TemporaryFolder folder;
  WriteAll(folder / "file", std::string(4096, 'x'));
  const std::vector<Path> paths = {folder / "file"};
  ASSERT_OK_AND_ASSIGN(const auto device, BufferedDevice::Open(paths, {}));
  const std::atomic<bool> stop{true};
  const ReadLoad load{.read_bytes = 4096, .max_time = std::chrono::hours(1), .stop = &stop};
  ASSERT_OK_AND_ASSIGN(const PageMemory memory, PageMemory::Allocate(ReadLoadMemory(load)));
  ASSERT_OK_AND_ASSIGN(const ReadRate rate, MeasureReadRate(*device, load, memory.bytes()));
  EXPECT_EQ(rate.bytes, 0U);
}

TEST(ReadRateTest, AFailureIsPassedOn) {
  const TemporaryFolder folder;
  WriteAll(folder / "file", std::string(4096, 'x'));
  const std::vector<Path> paths = {folder / "file"};
  FaultyDevice device(BufferedDevice::Open(paths, {}).value(),
                      {.fail_reads = {{2, Code::kIoError}}});
  const ReadLoad load{.read_bytes = 1024, .depth = 2, .max_time = std::chrono::hours(1)};
  ASSERT_OK_AND_ASSIGN(const PageMemory memory, PageMemory::Allocate(ReadLoadMemory(load)));
  EXPECT_THAT(MeasureReadRate(device, load, memory.bytes()),
              Fails(Code::kIoError, "injected fault"));
}

}  // namespace
}  // namespace picchio
