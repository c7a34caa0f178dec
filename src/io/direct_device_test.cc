#include "io/direct_device.h"

#include <cerrno>

#include "base/aligned_buffer.h"
#include "support/build_folder.h"
#include "support/test_support.h"

namespace picchio {
namespace {

class DirectDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * i >> 7);
    WriteAll(folder_ / "file", content_);
  }
  Status Open(const DirectDevice::Options& options) {
    const std::vector<Path> paths = {folder_ / "file"};
    PICCHIO_ASSIGN_OR_RETURN(device_, DirectDevice::Open(paths, options));
    PICCHIO_ASSIGN_OR_RETURN(queue_, device_->OpenQueue());
    return Status::Ok();
  }
  Status Read(uint64_t offset, size_t bytes) {
    const DeviceRead read{.offset = offset, .out = memory_.bytes().first(bytes)};
    EXPECT_EQ(queue_->Submit({&read, 1}), 1u);
    DeviceCompletion completion;
    EXPECT_EQ(queue_->Reap({&completion, 1}, kForever), 1u);
    return completion.status;
  }
  void ExpectBytes(uint64_t offset, size_t bytes) {
    const auto expected = std::as_bytes(std::span(content_)).subspan(offset, bytes);
    EXPECT_TRUE(std::ranges::equal(memory_.bytes().first(bytes), expected));
  }

  BuildTemporaryFolder folder_;
  std::string content_ = std::string(200000, '\0');
  AlignedBuffer memory_ = AlignedBuffer::Allocate(256_KiB, 64_KiB).value();
  std::unique_ptr<DirectDevice> device_;
  std::unique_ptr<ReadQueue> queue_;
};

TEST_F(DirectDeviceTest, TheBytesComePastThePageCacheButForTheLastPartialBlock) {
  ASSERT_OK(Open({}));
  if (device_->alignment() == 1) GTEST_SKIP() << device_->Report().notes.at(0);
  ASSERT_OK(Read(0, content_.size()));
  ExpectBytes(0, content_.size());
  const DeviceReport report = device_->Report();
  EXPECT_EQ(report.buffered_bytes, content_.size() % device_->alignment());
  EXPECT_EQ(report.direct_bytes + report.buffered_bytes, content_.size());
  EXPECT_EQ(report.num_direct_failures, 0u);
  EXPECT_THAT(report.notes, testing::IsEmpty());
}

TEST_F(DirectDeviceTest, WhatFailsUnbufferedIsReadBufferedCountedAndSaidOnce) {
  const auto faults = std::make_shared<TransferFaults>(TransferFaultPlan{.direct_error_rate = 1});
  ASSERT_OK(Open({.faults = faults}));
  if (device_->alignment() == 1) GTEST_SKIP() << device_->Report().notes.at(0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(Read(0, 64_KiB));
    ExpectBytes(0, 64_KiB);
  }
  const DeviceReport report = device_->Report();
  EXPECT_EQ(report.direct_bytes, 0u);
  EXPECT_EQ(report.buffered_bytes, 3 * 64_KiB);
  EXPECT_EQ(report.num_direct_failures, 3u);
  EXPECT_THAT(report.notes, testing::ElementsAre(testing::HasSubstr("through the page cache")));
}

TEST_F(DirectDeviceTest, AnErrorOfBothIsAnError) {
  const auto faults = std::make_shared<TransferFaults>(TransferFaultPlan{.error_rate = 1});
  ASSERT_OK(Open({.faults = faults}));
  const Status status = Read(0, 64_KiB);
  EXPECT_THAT(status, Fails(Code::kIoError, "file at byte 0"));
  EXPECT_EQ(status.native_error(), EIO);
}

TEST_F(DirectDeviceTest, AFileThatNeedsALargerAlignmentThanTheStoreHasIsReadBuffered) {
  ASSERT_OK(Open({.max_alignment = 512}));
  EXPECT_EQ(device_->alignment(), 1u);
  ASSERT_EQ(device_->Report().notes.size(), 1u);
  EXPECT_THAT(device_->Report().notes[0], testing::HasSubstr("it is read through the page cache"));
  ASSERT_OK(Read(1, 1000));
  ExpectBytes(1, 1000);
}

TEST_F(DirectDeviceTest, RefusesWhatIsNotThere) {
  const std::vector<Path> none = {folder_ / "none"};
  EXPECT_THAT(DirectDevice::Open(none, {}), Fails(Code::kNotFound, "none does not exist"));
  const std::vector<Path> folder = {folder_.path()};
  EXPECT_THAT(DirectDevice::Open(folder, {}), Fails(Code::kInvalidArgument, "neither a regular"));
  EXPECT_THAT(DirectDevice::Open({}, {}), Fails(Code::kInvalidArgument, "at least one file"));
  const std::vector<Path> file = {folder_ / "file"};
  EXPECT_THAT(DirectDevice::Open(file, {.num_threads = 0}),
              Fails(Code::kInvalidArgument, "0 threads"));
}

TEST_F(DirectDeviceTest, AnEmptyFileHasNothingToRead) {
  WriteAll(folder_ / "file", "");
  ASSERT_OK(Open({}));
  EXPECT_EQ(device_->file_bytes(0), 0u);
  EXPECT_THAT(Read(0, 4096), Fails(Code::kIoError, "ends at byte 0"));
}

}  // namespace
}  // namespace picchio
