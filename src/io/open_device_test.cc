#include "io/open_device.h"

#include <filesystem>

#include "base/aligned_buffer.h"
#include "io/direct_device.h"
#include "io/uring_ring.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class OpenDeviceTest : public testing::Test {
 protected:
  void SetUp() override { WriteAll(folder_ / "file", std::string(256_KiB, 'x')); }

  Result<OpenedDevice> Open(const OpenDeviceOptions& options) {
    const std::vector<Path> paths = {folder_ / "file"};
    return OpenDevice(paths, options);
  }
  bool DirectWorks() {
    const std::vector<Path> paths = {folder_ / "file"};
    return DirectDevice::Open(paths, {}).value()->alignment() > 1;
  }
  static void ExpectReads(BlockDevice& device) {
    auto memory = AlignedBuffer::Allocate(64_KiB, 64_KiB).value();
    const auto queue = device.OpenQueue().value();
    const DeviceRead read{.offset = 64_KiB, .out = memory.bytes()};
    ASSERT_EQ(queue->Submit({&read, 1}), 1u);
    DeviceCompletion completion;
    ASSERT_EQ(queue->Reap({&completion, 1}, kForever), 1u);
    EXPECT_OK(completion.status);
    EXPECT_EQ(memory.bytes().back(), std::byte{'x'});
  }

  TemporaryFolder folder_;
};

TEST_F(OpenDeviceTest, EveryKindReads) {
  for (const IoKind kind : {IoKind::kAuto, IoKind::kBuffered, IoKind::kDirect, IoKind::kUring}) {
    ASSERT_OK_AND_ASSIGN(const OpenedDevice opened, Open({.kind = kind}));
    EXPECT_FALSE(opened.choice.empty());
    EXPECT_EQ(opened.choice.find('\n'), std::string::npos);
    ExpectReads(*opened.device);
  }
}

TEST_F(OpenDeviceTest, SaysWhatItIs) {
  EXPECT_EQ(Open({.kind = IoKind::kBuffered, .queue_depth = 3}).value().choice,
            "buffered reads by 3 threads");
  if (!DirectWorks()) GTEST_SKIP() << "no unbuffered reads in the temporary folder";
  EXPECT_EQ(Open({.kind = IoKind::kDirect, .queue_depth = 3, .num_threads = 5}).value().choice,
            "unbuffered reads by 5 threads");
  if (!UringRing::Open({}).has_value()) GTEST_SKIP() << "no io_uring here";
  EXPECT_EQ(Open({.kind = IoKind::kUring, .queue_depth = 7}).value().choice,
            "unbuffered reads by io_uring, 7 at once");
  EXPECT_THAT(Open({}).value().choice, StartsWith("unbuffered reads by io_uring"));
}

TEST_F(OpenDeviceTest, AutoMeasuresWhatIsLargeEnough) {
  if (!DirectWorks() || !UringRing::Open({}).has_value()) GTEST_SKIP() << "nothing to choose from";
  std::filesystem::resize_file(folder_ / "file", 65_MiB);  // A hole, for the most part.
  const std::string choice = Open({}).value().choice;
  EXPECT_THAT(choice, HasSubstr("in a probe"));
  EXPECT_THAT(choice, StartsWith("unbuffered reads by"));
}

TEST_F(OpenDeviceTest, WithoutUnbufferedReadsItIsBufferedAndSaysWhy) {
  for (const IoKind kind : {IoKind::kAuto, IoKind::kDirect, IoKind::kUring}) {
    ASSERT_OK_AND_ASSIGN(const OpenedDevice opened, Open({.kind = kind, .max_alignment = 512}));
    EXPECT_THAT(opened.choice, StartsWith("buffered reads by 16 threads: "));
    EXPECT_THAT(opened.choice, HasSubstr("file"));
    EXPECT_EQ(opened.device->alignment(), 1u);
  }
}

TEST_F(OpenDeviceTest, RefusesWhatMakesNoSense) {
  EXPECT_THAT(Open({.queue_depth = -1}), Fails(Code::kInvalidArgument, "-1 reads at once"));
  EXPECT_THAT(Open({.num_threads = 1 << 20}), Fails(Code::kInvalidArgument, "1048576 threads"));
  const std::vector<Path> none = {folder_ / "none"};
  EXPECT_THAT(OpenDevice(none, {}), Fails(Code::kNotFound, "none does not exist"));
  EXPECT_THAT(OpenDevice({}, {}), Fails(Code::kInvalidArgument, "at least one file"));
}

TEST(ParseIoKindTest, KnowsFourWords) {
  EXPECT_EQ(ParseIoKind("auto").value(), IoKind::kAuto);
  EXPECT_EQ(ParseIoKind("buffered").value(), IoKind::kBuffered);
  EXPECT_EQ(ParseIoKind("direct").value(), IoKind::kDirect);
  EXPECT_EQ(ParseIoKind("uring").value(), IoKind::kUring);
  EXPECT_THAT(ParseIoKind("mmap"), Fails(Code::kInvalidArgument, "'mmap': auto, buffered"));
}

}  // namespace
}  // namespace picchio
