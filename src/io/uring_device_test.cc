#include "io/uring_device.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <thread>

#include "base/aligned_buffer.h"
#include "base/cgroup.h"
#include "base/page_memory.h"
#include "io/restricted_process_test_support.h"
#include "support/build_folder.h"
#include "support/test_support.h"

namespace picchio {
namespace {

constexpr uint64_t kFileBytes = 8_MiB + 1000;

class UringDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 40503 >> 16);
    WriteAll(folder_ / "file", content_);
    // Dirty pages would have to be written before an unbuffered read.
    ASSERT_OK(File::OpenForWrite(folder_ / "file").value().Sync());
  }

  Status Open(const UringDevice::Options& options) {
    const std::vector<Path> paths = {folder_ / "file"};
    queue_.reset();
    PICCHIO_ASSIGN_OR_RETURN(device_, UringDevice::Open(paths, options));
    PICCHIO_ASSIGN_OR_RETURN(queue_, device_->OpenQueue());
    return Status::Ok();
  }

  static DeviceRead MakeRead(uint64_t tag, uint64_t offset, std::span<std::byte> out,
                             ReadPriority priority = ReadPriority::kDemand) {
    return {.offset = offset, .out = out, .tag = tag, .priority = priority};
  }
  void Submit(const DeviceRead& read) { ASSERT_EQ(queue_->Submit({&read, 1}), 1u); }
  DeviceCompletion ReapOne() {
    DeviceCompletion completion{.tag = 999};
    EXPECT_EQ(queue_->Reap({&completion, 1}, kForever), 1u);
    return completion;
  }
  bool HasBytes(std::span<const std::byte> bytes, uint64_t offset) {
    return std::ranges::equal(bytes,
                              std::as_bytes(std::span(content_)).subspan(offset, bytes.size()));
  }
  // Reads the whole file in pieces of 1 MiB and compares.
  void ReadAllOfIt() {
    PageMemory memory = PageMemory::Allocate(RoundUp(kFileBytes, 1_MiB)).value();
    ASSERT_OK(queue_->Attach(memory.bytes()));
    uint64_t tag = 0;
    for (uint64_t at = 0; at < kFileBytes; at += 1_MiB) {
      Submit(MakeRead(tag++, at, memory.bytes().subspan(at, std::min(1_MiB, kFileBytes - at))));
    }
    for (; tag > 0; --tag) EXPECT_OK(ReapOne().status);
    EXPECT_TRUE(HasBytes(memory.bytes().first(kFileBytes), 0));
    queue_->Detach(memory.bytes());
  }

  BuildTemporaryFolder folder_;
  std::string content_ = std::string(kFileBytes, '\0');
  std::unique_ptr<UringDevice> device_;
  std::unique_ptr<ReadQueue> queue_;
};

#define SKIP_WITHOUT_URING()                                      \
  if (const auto ring = UringRing::Open({}); !ring.has_value()) { \
    GTEST_SKIP() << ring.error().message();                       \
  }

TEST_F(UringDeviceTest, TheFastestModeOfTheKernelIsTaken) {
  SKIP_WITHOUT_URING();
  utsname system{};
  ASSERT_EQ(uname(&system), 0);
  int major = 0;
  int minor = 0;
  ASSERT_EQ(std::sscanf(system.release, "%d.%d", &major, &minor), 2);
  if (major < 6 || (major == 6 && minor < 1)) GTEST_SKIP() << "needs Linux 6.1";
  EXPECT_EQ(UringRing::Open({}).value()->mode(), "deferred task work");
}

TEST_F(UringDeviceTest, TheBytesComePastThePageCache) {
  SKIP_WITHOUT_URING();
  ASSERT_OK(Open({}));
  EXPECT_OK(device_->ring_status());
  ReadAllOfIt();
  if (device_->alignment() == 1) GTEST_SKIP() << device_->Report().notes.at(0);
  EXPECT_EQ(device_->Report().direct_bytes, kFileBytes / 4096 * 4096);
  EXPECT_EQ(device_->Report().buffered_bytes, kFileBytes % 4096);
  EXPECT_EQ(device_->Report().num_direct_failures, 0u);
}

// The kernel hands requests that it cannot take at once to workers of the thread that issued them:
// slower than issuing two, and a thread each.
TEST_F(UringDeviceTest, NoRequestGoesToTheKernelsWorkers) {
  SKIP_WITHOUT_URING();
  std::thread([this] {
    const std::string name = "iou-wrk-" + std::to_string(gettid());
    ASSERT_OK(Open({}));
    if (device_->alignment() == 1) GTEST_SKIP() << device_->Report().notes.at(0);
    for (const uint64_t page_kind : {0, 1}) {
      // Huge pages, and memory that comes page by page and is not theirs.
      PageMemory pages;
      AlignedBuffer buffer;
      if (page_kind == 0) {
        pages = PageMemory::Allocate(32_MiB).value();
      } else {
        buffer = AlignedBuffer::Allocate(32_MiB, 4096).value();
        std::ranges::fill(buffer.bytes(), std::byte{1});
      }
      const std::span<std::byte> memory = page_kind == 0 ? pages.bytes() : buffer.bytes();
      ASSERT_OK(queue_->Attach(memory));
      // The first round brings the file's extents into the kernel's memory.
      for (int round = 0; round < 2; ++round) {
        for (uint64_t tag = 0; tag < 10; ++tag) {
          const uint64_t bytes = 2654208;  // One expert of Qwen3-30B-A3B.
          Submit(MakeRead(tag, tag * 65536, memory.subspan(tag * 3_MiB, bytes)));
        }
        for (int i = 0; i < 10; ++i) EXPECT_OK(ReapOne().status);
      }
      for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
        EXPECT_NE(ReadPseudoFile(entry.path() / "comm").substr(0, name.size()), name)
            << (page_kind == 0 ? "huge pages" : "small pages");
      }
      queue_->Detach(memory);
    }
    queue_.reset();
  }).join();
}

TEST_F(UringDeviceTest, DemandsGoBeforePrefetchesAndPromotedOnesAmongThem) {
  SKIP_WITHOUT_URING();
  ASSERT_OK(Open({.queue = {.depth = 1}}));
  AlignedBuffer memory = AlignedBuffer::Allocate(64_KiB, 4096).value();
  const auto submit = [&](uint64_t tag, ReadPriority priority) {
    Submit(MakeRead(tag, tag * 4096, memory.bytes().subspan(tag * 4096, 4096), priority));
  };
  submit(0, ReadPriority::kPrefetch);  // At the device; the others wait in line.
  submit(1, ReadPriority::kPrefetch);
  submit(2, ReadPriority::kPrefetch);
  submit(3, ReadPriority::kPrefetch);
  submit(4, ReadPriority::kDemand);
  queue_->Promote(2);
  queue_->Promote(0);
  queue_->Promote(77);
  submit(5, ReadPriority::kDemand);
  std::vector<uint64_t> order;
  for (int i = 0; i < 6; ++i) order.push_back(ReapOne().tag);
  EXPECT_THAT(order, testing::ElementsAre(0, 4, 2, 5, 1, 3));
}

TEST_F(UringDeviceTest, CancelTakesWhatIsNotAtTheDevice) {
  SKIP_WITHOUT_URING();
  // A ring of four requests of 4 KiB: the first read is only partly at the device.
  ASSERT_OK(Open({.queue = {.max_request_bytes = 4_KiB, .ring = {.num_entries = 4}}}));
  AlignedBuffer memory = AlignedBuffer::Allocate(256_KiB, 4096).value();
  Submit(MakeRead(1, 0, memory.bytes().first(64_KiB)));
  Submit(MakeRead(2, 0, memory.bytes().subspan(64_KiB, 4096)));
  queue_->Cancel(2);
  queue_->Cancel(1);
  queue_->Cancel(3);
  DeviceCompletion completion = ReapOne();
  EXPECT_EQ(completion.tag, 2u);
  EXPECT_EQ(completion.status.code(), Code::kCancelled);
  completion = ReapOne();
  EXPECT_EQ(completion.tag, 1u);
  EXPECT_EQ(completion.status.code(), Code::kCancelled);
  EXPECT_EQ(queue_->Reap({&completion, 1}, kForever), 0u);
  // What is all at the device is not taken back.
  Submit(MakeRead(4, 0, memory.bytes().first(4096)));
  queue_->Cancel(4);
  EXPECT_OK(ReapOne().status);
  EXPECT_TRUE(HasBytes(memory.bytes().first(4096), 0));
}

TEST_F(UringDeviceTest, AnErrorOfOneRequestFailsItsRead) {
  SKIP_WITHOUT_URING();
  ASSERT_OK(Open({.queue = {.max_request_bytes = 16_KiB,
                            .faults = std::make_shared<TransferFaults>(
                                TransferFaultPlan{.seed = 5, .error_rate = 0.3})}}));
  AlignedBuffer memory = AlignedBuffer::Allocate(64_KiB, 4096).value();
  int num_failed = 0;
  for (int i = 0; i < 50; ++i) {
    Submit(MakeRead(7, 0, memory.bytes()));
    const DeviceCompletion completion = ReapOne();
    if (completion.status.ok()) {
      EXPECT_TRUE(HasBytes(memory.bytes(), 0));
    } else {
      EXPECT_THAT(completion.status, Fails(Code::kIoError, "cannot read"));
      ++num_failed;
    }
  }
  // An unbuffered request that fails is asked for again: a read of four fails with 1 - 0.91^4.
  EXPECT_GT(num_failed, 0);
  EXPECT_LT(num_failed, 50);
}

// Hundreds of requests in one call keep the caller from computing for milliseconds.
TEST_F(UringDeviceTest, NoCallBringsTheKernelMoreThanABatch) {
  SKIP_WITHOUT_URING();
  unsigned most = 0;
  uint64_t sum = 0;
  ASSERT_OK(Open(
      {.queue = {.depth = 64, .max_request_bytes = 4_KiB, .on_enter = [&](unsigned num_entries) {
                   most = std::max(most, num_entries);
                   sum += num_entries;
                   return 0;
                 }}}));
  if (device_->alignment() == 1) GTEST_SKIP() << device_->Report().notes.at(0);
  ReadAllOfIt();
  EXPECT_EQ(most, 32u);
  EXPECT_EQ(sum, CeilDiv(kFileBytes, 4_KiB));
}

// What the kernel has it completes, and only the rest fails: no read is lost, none ends twice.
TEST_F(UringDeviceTest, AHardErrorFailsWhatTheKernelHasNotTaken) {
  SKIP_WITHOUT_URING();
  int calls_left = 1;
  ASSERT_OK(Open({}));
  if (device_->alignment() == 1) GTEST_SKIP() << device_->Report().notes.at(0);
  AlignedBuffer memory = AlignedBuffer::Allocate(256_KiB, 4096).value();
  // All of the first read is at the device, of the second nothing, or one call's part of it.
  for (const int num_calls : {1, 2}) {
    calls_left = num_calls;
    const auto on_enter = [&](unsigned num_entries) {
      return num_entries == 0 || calls_left-- > 0 ? 0 : -EBADF;
    };
    ASSERT_OK(Open(
        {.queue = {.max_request_bytes = 4_KiB, .on_enter = on_enter, .ring = {.num_entries = 8}}}));
    Submit(MakeRead(1, 0, memory.bytes().first(4_KiB)));
    Submit(MakeRead(2, 4_KiB, memory.bytes().subspan(4_KiB, 64_KiB)));
    Submit(MakeRead(3, 0, memory.bytes().subspan(128_KiB, 4_KiB)));
    std::map<uint64_t, Status> ended;
    for (int i = 0; i < 3; ++i) {
      const DeviceCompletion completion = ReapOne();
      EXPECT_TRUE(ended.emplace(completion.tag, completion.status).second);
    }
    EXPECT_OK(ended.at(1));
    EXPECT_TRUE(HasBytes(memory.bytes().first(4_KiB), 0));
    EXPECT_THAT(ended.at(2), Fails(Code::kIoError, "io_uring takes no more reads"));
    EXPECT_THAT(ended.at(3), Fails(Code::kIoError, "io_uring takes no more reads"));
    DeviceCompletion none;
    EXPECT_EQ(queue_->Reap({&none, 1}, kForever), 0u);
    queue_->Drain();
  }
}

TEST_F(UringDeviceTest, AnErrorWithReadsInFlightDoesNotKeepTheQueueFromEnding) {
  SKIP_WITHOUT_URING();
  bool fail = false;
  ASSERT_OK(Open({.queue = {.on_enter = [&](unsigned) { return fail ? -EBADF : 0; }}}));
  AlignedBuffer memory = AlignedBuffer::Allocate(64_KiB, 4096).value();
  Submit(MakeRead(1, 0, memory.bytes().first(32_KiB)));
  fail = true;
  Submit(MakeRead(2, 0, memory.bytes().subspan(32_KiB)));
  queue_.reset();
}

TEST_F(UringDeviceTest, SlowerModesAreSaid) {
  SKIP_WITHOUT_URING();
  if (!UringRing::Open({}).value()->is_fastest_mode()) GTEST_SKIP() << "needs Linux 6.1";
  for (const int mode : {0, 1, 2}) {
    ASSERT_OK(Open({.queue = {.ring = {.first_mode = mode}}}));
    ReadAllOfIt();
    const std::string notes = testing::PrintToString(device_->Report().notes);
    EXPECT_EQ(notes.find("io_uring runs in its mode") != std::string::npos, mode > 0) << notes;
  }
}

TEST_F(UringDeviceTest, WhereItIsRefusedThreadsReadAndANoteSaysWhy) {
  SKIP_WITHOUT_URING();
  for (const int number : {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register}) {
    for (const int error : {EPERM, ENOSYS}) {
      // A filter binds only the thread that asks for it, and its children.
      std::thread([&] {
        if (!Refuse(number, error)) GTEST_SKIP() << "seccomp filters are not available here";
        ASSERT_OK(Open({}));
        EXPECT_THAT(device_->ring_status(), Fails(Code::kUnavailable, "seccomp"));
        const std::vector<std::string> notes = device_->Report().notes;
        ASSERT_FALSE(notes.empty());
        EXPECT_THAT(notes.back(), testing::HasSubstr("seccomp filter"));
        EXPECT_THAT(notes.back(), testing::HasSubstr("threads read instead"));
        ReadAllOfIt();
        queue_.reset();
      }).join();
    }
  }
}

TEST_F(UringDeviceTest, UnderALowMemlockLimitReadsGoOnUnregistered) {
  SKIP_WITHOUT_URING();
  std::thread([this] {
    if (!DropIpcLock()) GTEST_SKIP() << "capabilities cannot be dropped here";
    rlimit old{};
    ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &old), 0);
    const rlimit low{.rlim_cur = 64 * 1024, .rlim_max = old.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &low), 0);
    EXPECT_OK(Open({}));
    ReadAllOfIt();
    const std::vector<std::string> notes = device_->Report().notes;
    queue_.reset();
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &old), 0);
    ASSERT_FALSE(notes.empty());
    EXPECT_THAT(notes.back(), testing::HasSubstr("RLIMIT_MEMLOCK is 64.0 KiB"));
  }).join();
}

TEST_F(UringDeviceTest, RefusesWhatMakesNoSense) {
  EXPECT_THAT(Open({.queue = {.depth = 0}}), Fails(Code::kInvalidArgument, "depth 0"));
  EXPECT_THAT(Open({.queue = {.max_in_flight = 0}}), Fails(Code::kInvalidArgument, "0 reads"));
}

TEST(UringRingTest, FailuresNameWhatToChange) {
  using testing::HasSubstr;
  EXPECT_THAT(ExplainUringFailure(EPERM, 2),
              HasSubstr("sysctl kernel.io_uring_disabled is 2, 0 allows it"));
  EXPECT_THAT(ExplainUringFailure(EPERM, 1), HasSubstr("kernel.io_uring_group"));
  EXPECT_THAT(ExplainUringFailure(EPERM, 0), HasSubstr("seccomp filter"));
  EXPECT_THAT(ExplainUringFailure(EPERM, std::nullopt), HasSubstr("seccomp filter"));
  EXPECT_THAT(ExplainUringFailure(ENOSYS, std::nullopt), HasSubstr("older than"));
  EXPECT_THAT(ExplainUringFailure(ENOMEM, 0), HasSubstr("RLIMIT_MEMLOCK"));
  EXPECT_THAT(ExplainUringFailure(EMFILE, 0), HasSubstr("cannot be set up"));
}

}  // namespace
}  // namespace picchio
