#include "io/open_device.h"

#include <filesystem>

#include "base/aligned_buffer.h"
#include "io/direct_device.h"
#include "io/uring_ring.h"
#include "support/build_folder.h"
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

  BuildTemporaryFolder folder_;
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

// The measurements' rates are given here: threads must be clearly faster to be taken, and what is
// measured takes half a second at most on any drive from 100 MB/s on.
TEST_F(OpenDeviceTest, AutoTakesThreadsWhereTheyAreClearlyFaster) {
  if (!DirectWorks() || !UringRing::Open({}).has_value()) GTEST_SKIP() << "nothing to choose from";
  std::filesystem::resize_file(folder_ / "file", 65_MiB);
  struct Rates {
    double ring;
    double threads;
    const char* choice;
  };
  for (const Rates& rates :
       {Rates{1e9, 1.3e9, "unbuffered reads by 16 threads: 1.30 GB/s in a probe, io_uring 1.00"},
        Rates{1e9, 1.1e9, "unbuffered reads by io_uring, 32 at once: 1.00 GB/s in a probe, thr"},
        Rates{3e9, 1e9, "unbuffered reads by io_uring, 32 at once: 3.00 GB/s in a probe, thr"},
        Rates{100e6, 900e6,
              "unbuffered reads by io_uring, 32 at once: 100 MB/s in a probe, "
              "the drive is the limit"}}) {
    std::chrono::duration<double> time{0};
    const auto measure = [&](BlockDevice& device, const ReadLoad& load,
                             std::span<std::byte> memory) -> Result<ReadRate> {
      EXPECT_GE(memory.size(), ReadLoadMemory(load));
      const bool threads = dynamic_cast<DirectDevice*>(&device) != nullptr;
      const double rate = threads ? rates.threads : rates.ring;
      const double full = std::min(rate * std::chrono::duration<double>(load.max_time).count(),
                                   static_cast<double>(load.max_bytes));
      // What is in flight when it is over is waited for.
      const double bytes = full + static_cast<double>(load.depth * load.read_bytes);
      time += std::chrono::duration<double>(bytes / rate);
      return ReadRate{.bytes = static_cast<uint64_t>(bytes), .seconds = bytes / rate};
    };
    ASSERT_OK_AND_ASSIGN(const OpenedDevice opened,
                         Open({.probe_read_bytes = 2654208, .measure = measure}));
    EXPECT_THAT(opened.choice, StartsWith(rates.choice));
    EXPECT_LT(time.count(), 0.5);
  }
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
