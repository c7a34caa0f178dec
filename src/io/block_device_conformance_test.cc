// What block_device.h promises, held against every backend. A new backend is added at the end.

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/page_memory.h"
#include "base/units.h"
#include "io/block_device.h"
#include "io/bounce_device.h"
#include "io/buffered_device.h"
#include "io/direct_device.h"
#include "io/faulty_device.h"
#include "io/uring_device.h"
#include "support/build_folder.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr std::byte kPoison{0xa7};
constexpr uint64_t kSlotBytes = 64_KiB;
constexpr size_t kSlots = 16;

struct DeviceCase {
  std::string name;
  std::function<Result<std::unique_ptr<BlockDevice>>(std::span<const Path>)> open;
};

// Where the bytes go: scattered small pages, or huge pages where the system has them.
enum class Memory { kSmallPages, kHugePages };

// Through the C library's functions, which sanitizers check in one step and not byte by byte.
bool SameBytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}
bool AllPoison(std::span<const std::byte> bytes) {
  // The first byte, and each as the one before it.
  return bytes.empty() ||
         (bytes[0] == kPoison && SameBytes(bytes.subspan(1), bytes.first(bytes.size() - 1)));
}

class BlockDeviceConformanceTest : public testing::TestWithParam<std::tuple<DeviceCase, Memory>> {
 protected:
  void SetUp() override {
    std::mt19937 random(4);
    // Whole multiples of any alignment, and a file that is not.
    for (const uint64_t bytes : {256_KiB, 192_KiB, uint64_t{100001}}) {
      std::string& content = contents_.emplace_back(bytes, '\0');
      for (char& byte : content) byte = static_cast<char>(random());
      paths_.push_back(folder_ / ("file" + std::to_string(contents_.size())));
      WriteAll(paths_.back(), content);
    }
    auto device = std::get<DeviceCase>(GetParam()).open(paths_);
    ASSERT_OK(device);
    device_ = std::move(device).value();
    AllocateMemory();
    OpenQueue();
  }

  void AllocateMemory() {
    if (std::get<Memory>(GetParam()) == Memory::kHugePages) {
      pages_ = PageMemory::Allocate(2_MiB).value();
    } else {
      buffer_ = AlignedBuffer::Allocate(kSlots * kSlotBytes, 64_KiB).value();
    }
  }
  void FreeMemory() {
    pages_ = PageMemory();
    buffer_ = AlignedBuffer();
  }
  std::span<std::byte> memory() {
    return (pages_.size() > 0 ? pages_.bytes() : buffer_.bytes()).first(kSlots * kSlotBytes);
  }

  void OpenQueue() {
    auto queue = device_->OpenQueue();
    ASSERT_OK(queue);
    queue_ = std::move(queue).value();
    ASSERT_OK(queue_->Attach(memory()));
  }

  std::span<std::byte> slot(uint64_t i) { return memory().subspan(i * kSlotBytes, kSlotBytes); }
  void Poison(uint64_t i) { std::memset(slot(i).data(), static_cast<int>(kPoison), kSlotBytes); }

  // A read of any place that the alignment allows, into slot `tag`.
  DeviceRead RandomRead(std::mt19937& random, uint64_t tag) {
    const uint64_t unit = device_->alignment();
    const auto file_idx = static_cast<uint32_t>(random() % contents_.size());
    const uint64_t units = contents_[file_idx].size() / unit;
    const uint64_t length = 1 + random() % std::min(units, kSlotBytes / unit);
    const uint64_t first = random() % (units - length + 1);
    Poison(tag);
    return {.file_idx = file_idx,
            .offset = first * unit,
            .out = slot(tag).first(length * unit),
            .tag = tag,
            .priority = random() % 2 == 0 ? ReadPriority::kDemand : ReadPriority::kPrefetch};
  }

  void ExpectBytes(const DeviceRead& read) {
    const auto expected =
        std::as_bytes(std::span(contents_[read.file_idx])).subspan(read.offset, read.out.size());
    EXPECT_TRUE(SameBytes(read.out, expected));
    const auto behind = slot(read.tag).subspan(read.out.size());
    EXPECT_TRUE(AllPoison(behind));
  }

  std::vector<DeviceRead> RandomReads(std::mt19937& random, size_t count) {
    std::vector<DeviceRead> reads;
    for (size_t i = 0; i < count; ++i) reads.push_back(RandomRead(random, i));
    return reads;
  }

  void ExpectIdle() {
    DeviceCompletion completion;
    EXPECT_EQ(queue_->Reap({&completion, 1}, nanoseconds(0)), 0u);
    EXPECT_EQ(queue_->Reap({&completion, 1}, kForever), 0u);
  }

  BuildTemporaryFolder folder_;
  std::vector<std::string> contents_;
  std::vector<Path> paths_;
  PageMemory pages_;
  AlignedBuffer buffer_;
  std::unique_ptr<BlockDevice> device_;
  std::unique_ptr<ReadQueue> queue_;
};

TEST_P(BlockDeviceConformanceTest, DescribesItself) {
  EXPECT_FALSE(device_->name().empty());
  ASSERT_EQ(device_->num_files(), contents_.size());
  for (size_t i = 0; i < contents_.size(); ++i) {
    EXPECT_EQ(device_->file_bytes(i), contents_[i].size());
  }
  EXPECT_GE(device_->alignment(), 1u);
  EXPECT_LE(device_->alignment(), kSlotBytes);
  EXPECT_GE(queue_->max_in_flight(), 1u);
}

TEST_P(BlockDeviceConformanceTest, ReadsTheBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 10; ++round) {
    const std::vector<DeviceRead> reads = RandomReads(random, kSlots);
    size_t submitted = 0;
    std::set<uint64_t> seen;
    DeviceCompletion batch[3];
    while (seen.size() < reads.size()) {
      const size_t accepted = queue_->Submit(std::span(reads).subspan(submitted));
      ASSERT_TRUE(accepted > 0 || submitted > seen.size()) << "none in flight, none taken";
      submitted += accepted;
      ASSERT_LE(submitted - seen.size(), queue_->max_in_flight());
      const size_t count = queue_->Reap(batch, kForever);
      ASSERT_GT(count, 0u);
      for (const DeviceCompletion& completion : std::span(batch).first(count)) {
        EXPECT_OK(completion.status);
        ASSERT_LT(completion.tag, submitted);
        EXPECT_TRUE(seen.insert(completion.tag).second) << "completed twice";
        ExpectBytes(reads[completion.tag]);
      }
    }
    ExpectIdle();
  }
}

TEST_P(BlockDeviceConformanceTest, ReadsUpToTheLastByte) {
  const uint64_t unit = device_->alignment();
  for (uint32_t file_idx = 0; file_idx < contents_.size(); ++file_idx) {
    const uint64_t size = contents_[file_idx].size();
    for (const uint64_t blocks : {1, 3}) {
      // Of the file that is no multiple of anything: its last, partial block, alone and after two
      // others.
      const uint64_t offset = (CeilDiv(size, unit) - blocks) * unit;
      Poison(0);
      const DeviceRead read{
          .file_idx = file_idx, .offset = offset, .out = slot(0).first(size - offset)};
      ASSERT_EQ(queue_->Submit({&read, 1}), 1u);
      DeviceCompletion completion;
      ASSERT_EQ(queue_->Reap({&completion, 1}, kForever), 1u);
      EXPECT_OK(completion.status);
      ExpectBytes(read);
    }
  }
}

TEST_P(BlockDeviceConformanceTest, RefusesWhatIsNotAlignedOrReadsIt) {
  const uint64_t unit = device_->alignment();
  if (unit == 1) {
    Poison(0);
    const DeviceRead read{.file_idx = 0, .offset = 1, .out = slot(0).first(3)};
    ASSERT_EQ(queue_->Submit({&read, 1}), 1u);
    DeviceCompletion completion;
    ASSERT_EQ(queue_->Reap({&completion, 1}, kForever), 1u);
    EXPECT_OK(completion.status);
    ExpectBytes(read);
    return;
  }
  for (int which = 0; which < 3; ++which) {
    Poison(0);
    const DeviceRead read{.file_idx = 0,
                          .offset = which == 0 ? unit / 2 : 0,
                          .out = which == 1   ? slot(0).subspan(unit / 2, unit)
                                 : which == 2 ? slot(0).first(unit + 1)
                                              : slot(0).first(unit)};
    ASSERT_EQ(queue_->Submit({&read, 1}), 1u);
    DeviceCompletion completion;
    ASSERT_EQ(queue_->Reap({&completion, 1}, kForever), 1u);
    EXPECT_THAT(completion.status, Fails(Code::kInvalidArgument, "must be multiples of"));
    EXPECT_TRUE(AllPoison(slot(0)));
  }
}

TEST_P(BlockDeviceConformanceTest, AnEndOfFileBeforeTheEndIsAnError) {
  const uint64_t unit = device_->alignment();
  const uint64_t size = contents_[1].size();
  for (const uint64_t offset : {size - unit, size, size + unit, uint64_t{1} << 40}) {
    const DeviceRead read{.file_idx = 1, .offset = offset, .out = slot(0).first(2 * unit)};
    ASSERT_EQ(queue_->Submit({&read, 1}), 1u);
    DeviceCompletion completion;
    ASSERT_EQ(queue_->Reap({&completion, 1}, kForever), 1u);
    EXPECT_THAT(completion.status, Fails(Code::kIoError, "file2"));
  }
}

TEST_P(BlockDeviceConformanceTest, AFileCutShortWhileInUseIsAnError) {
  std::filesystem::resize_file(paths_[0], 4096);
  const DeviceRead read{.file_idx = 0, .offset = 0, .out = slot(0)};
  ASSERT_EQ(queue_->Submit({&read, 1}), 1u);
  DeviceCompletion completion;
  ASSERT_EQ(queue_->Reap({&completion, 1}, kForever), 1u);
  EXPECT_THAT(completion.status, Fails(Code::kIoError, "file1"));
}

TEST_P(BlockDeviceConformanceTest, AFileUnlinkedWhileInUseIsStillRead) {
  for (const Path& path : paths_) std::filesystem::remove(path);
  Poison(0);
  const DeviceRead read{.file_idx = 0, .offset = 64_KiB, .out = slot(0)};
  ASSERT_EQ(queue_->Submit({&read, 1}), 1u);
  DeviceCompletion completion;
  ASSERT_EQ(queue_->Reap({&completion, 1}, kForever), 1u);
  EXPECT_OK(completion.status);
  ExpectBytes(read);
}

TEST_P(BlockDeviceConformanceTest, ReapWithoutRoomTakesNothing) {
  std::mt19937 random(2);
  const DeviceRead read = RandomRead(random, 0);
  ASSERT_EQ(queue_->Submit({&read, 1}), 1u);
  EXPECT_EQ(queue_->Reap({}, kForever), 0u);
  DeviceCompletion completion;
  while (queue_->Reap({&completion, 1}, microseconds(10)) == 0) {
  }
  EXPECT_OK(completion.status);
  ExpectIdle();
}

// A ring with deferred work shows nothing to who never asks the kernel.
TEST_P(BlockDeviceConformanceTest, PollingAloneSeesReadsComplete) {
  std::mt19937 random(3);
  const DeviceRead read = RandomRead(random, 0);
  ASSERT_EQ(queue_->Submit({&read, 1}), 1u);
  DeviceCompletion completion;
  size_t count = 0;
  for (int i = 0; i < 20000 && count == 0; ++i) {
    count = queue_->Reap({&completion, 1}, nanoseconds(0));
    if (count == 0) std::this_thread::sleep_for(microseconds(500));
  }
  ASSERT_EQ(count, 1u) << "nothing within ten seconds";
  EXPECT_OK(completion.status);
  ExpectBytes(read);
}

TEST_P(BlockDeviceConformanceTest, DrainGivesAllMemoryBackAndTheQueueGoesOn) {
  std::mt19937 random(5);
  for (int round = 0; round < 10; ++round) {
    ASSERT_GE(queue_->Submit(RandomReads(random, kSlots)), 1u);
    DeviceCompletion completion;
    if (round % 2 == 0) (void)queue_->Reap({&completion, 1}, nanoseconds(0));
    queue_->Drain();
    for (uint64_t i = 0; i < kSlots; ++i) Poison(i);
    ExpectIdle();
    std::this_thread::sleep_for(microseconds(200));
    EXPECT_TRUE(AllPoison(memory())) << "written after Drain";
    const DeviceRead read = RandomRead(random, 0);
    ASSERT_EQ(queue_->Submit({&read, 1}), 1u);
    ASSERT_EQ(queue_->Reap({&completion, 1}, kForever), 1u);
    ExpectBytes(read);
  }
}

TEST_P(BlockDeviceConformanceTest, DestructionGivesAllMemoryBack) {
  std::mt19937 random(6);
  for (int round = 0; round < 10; ++round) {
    ASSERT_GE(queue_->Submit(RandomReads(random, kSlots)), 1u);
    queue_.reset();
    FreeMemory();  // A late write is a use after free.
    AllocateMemory();
    OpenQueue();
  }
}

TEST_P(BlockDeviceConformanceTest, QueuesOfSeveralThreadsAreIndependent) {
  queue_.reset();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([this, t] {
      auto queue = device_->OpenQueue();
      ASSERT_OK(queue);
      std::mt19937 random(static_cast<uint32_t>(t));
      for (int i = 0; i < 30; ++i) {
        const DeviceRead read = RandomRead(random, t);
        ASSERT_EQ((*queue)->Submit({&read, 1}), 1u);
        DeviceCompletion completion;
        ASSERT_EQ((*queue)->Reap({&completion, 1}, kForever), 1u);
        EXPECT_OK(completion.status);
        ExpectBytes(read);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(BlockDeviceConformanceTest, RandomUseKeepsEveryPromise) {
  std::mt19937 random(8);
  std::map<uint64_t, DeviceRead> in_flight;  // By tag, which is the slot.
  std::set<uint64_t> cancelled;
  std::vector<DeviceCompletion> batch(kSlots);
  for (int step = 0; step < 700; ++step) {
    const uint64_t tag = random() % kSlots;
    switch (random() % 8) {
      case 0:
        queue_->Cancel(tag);
        if (in_flight.contains(tag)) cancelled.insert(tag);
        break;
      case 1:
        queue_->Promote(tag);
        break;
      case 2:
        if (random() % 20 != 0) break;
        queue_->Drain();
        in_flight.clear();
        cancelled.clear();
        break;
      case 3:
      case 4: {
        std::vector<DeviceRead> reads;
        for (uint64_t i = 0; i < kSlots; ++i) {
          if (!in_flight.contains(i) && random() % 2 == 0) reads.push_back(RandomRead(random, i));
        }
        const size_t accepted = queue_->Submit(reads);
        ASSERT_TRUE(accepted > 0 || reads.empty() || !in_flight.empty());
        for (const DeviceRead& read : std::span(reads).first(accepted)) in_flight[read.tag] = read;
        ASSERT_LE(in_flight.size(), queue_->max_in_flight());
        break;
      }
      default: {
        const size_t room = random() % (kSlots + 1);
        const nanoseconds timeout = random() % 4 == 0 ? kForever : nanoseconds(random() % 20000);
        const size_t count = queue_->Reap(std::span(batch).first(room), timeout);
        if (timeout == kForever && room > 0 && !in_flight.empty()) {
          ASSERT_GT(count, 0u);
        }
        for (const DeviceCompletion& completion : std::span(batch).first(count)) {
          const auto read = in_flight.find(completion.tag);
          ASSERT_NE(read, in_flight.end()) << "completed without having been submitted";
          if (completion.status.ok()) {
            ExpectBytes(read->second);
          } else {
            ASSERT_EQ(completion.status.code(), Code::kCancelled);
            ASSERT_TRUE(cancelled.contains(completion.tag));
          }
          cancelled.erase(completion.tag);
          in_flight.erase(read);
        }
      }
    }
  }
}

template <typename Device>
auto Opens(const typename Device::Options& options) {
  return [options](std::span<const Path> paths) -> Result<std::unique_ptr<BlockDevice>> {
    PICCHIO_ASSIGN_OR_RETURN(auto device, Device::Open(paths, options));
    return std::unique_ptr<BlockDevice>(std::move(device));
  };
}
const auto Buffered = Opens<BufferedDevice>;
const auto Direct = Opens<DirectDevice>;
const auto Uring = Opens<UringDevice>;

// Everything that is not an error, often.
std::shared_ptr<TransferFaults> Troubles() {
  return std::make_shared<TransferFaults>(TransferFaultPlan{.seed = 3,
                                                            .interrupt_rate = 0.1,
                                                            .again_rate = 0.1,
                                                            .short_rate = 0.3,
                                                            .direct_error_rate = 0.1});
}

// A file whose reads take their time, some much more than others.
class SlowFile final : public RandomAccessFile {
 public:
  explicit SlowFile(File file) : file_(std::move(file)) {}
  uint64_t size() const override { return file_.size(); }
  const std::string& name() const override { return file_.name(); }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    std::this_thread::sleep_for(microseconds(offset % 7 * 20));
    return file_.ReadAt(offset, out);
  }

 private:
  File file_;
};

Result<std::unique_ptr<BlockDevice>> Slow(std::span<const Path> paths) {
  std::vector<std::unique_ptr<const RandomAccessFile>> files;
  for (const Path& path : paths) {
    PICCHIO_ASSIGN_OR_RETURN(File file, File::OpenForRead(path));
    files.push_back(std::make_unique<SlowFile>(std::move(file)));
  }
  PICCHIO_ASSIGN_OR_RETURN(auto device, BufferedDevice::Create(std::move(files), {}));
  return std::unique_ptr<BlockDevice>(std::move(device));
}

// Everything but failures: late, out of order, reluctant.
template <typename Device>
auto Disorder(const typename Device::Options& options) {
  return [options](std::span<const Path> paths) -> Result<std::unique_ptr<BlockDevice>> {
    PICCHIO_ASSIGN_OR_RETURN(auto device, Device::Open(paths, options));
    return std::unique_ptr<BlockDevice>(new FaultyDevice(
        std::move(device),
        {.delay_rate = 0.2, .delay = microseconds(50), .refuse_rate = 0.3, .shuffle = true}));
  };
}

// At any byte, through small buffers: most reads come in several pieces.
template <typename Device>
auto Bounced(const typename Device::Options& options, size_t num_buffers) {
  return [=](std::span<const Path> paths) -> Result<std::unique_ptr<BlockDevice>> {
    PICCHIO_ASSIGN_OR_RETURN(auto device, Device::Open(paths, options));
    PICCHIO_ASSIGN_OR_RETURN(
        auto bounced, BounceDevice::Create(std::move(device),
                                           {.buffer_bytes = 16_KiB, .num_buffers = num_buffers}));
    return std::unique_ptr<BlockDevice>(std::move(bounced));
  };
}

std::vector<DeviceCase> Cases() {
  return {
      {"Buffered", Buffered({})},
      {"BufferedOneThread", Buffered({.num_threads = 1})},
      {"BufferedOneAtATime", Buffered({.max_in_flight = 1})},
      {"BufferedSlow", Slow},
      {"BufferedTroubled", Buffered({.faults = Troubles()})},
      {"Direct", Direct({})},
      {"DirectOneAtATime", Direct({.max_in_flight = 1})},
      {"DirectSmallRequests", Direct({.max_request_bytes = 8_KiB})},
      {"DirectTroubled", Direct({.faults = Troubles()})},
      {"DirectUnaligned", Direct({.max_alignment = 1})},
      {"Uring", Uring({})},
      {"UringCooperative", Uring({.queue = {.ring = {.first_mode = 1}}})},
      {"UringPlain", Uring({.queue = {.ring = {.first_mode = 2}}})},
      {"UringDepth1", Uring({.queue = {.depth = 1}})},
      {"UringOneAtATime", Uring({.queue = {.max_in_flight = 1}})},
      {"UringTinyRing", Uring({.queue = {.max_request_bytes = 4_KiB, .ring = {.num_entries = 4}}})},
      {"UringUnregistered", Uring({.queue = {.register_memory = false}})},
      {"UringTroubled", Uring({.queue = {.max_request_bytes = 16_KiB, .faults = Troubles()}})},
      {"UringUnaligned", Uring({.max_alignment = 1})},
      {"FaultyBuffered", Disorder<BufferedDevice>({})},
      {"FaultyUring", Disorder<UringDevice>({})},
      {"BouncedDirect", Bounced<DirectDevice>({}, 8)},
      {"BouncedOneBuffer", Bounced<DirectDevice>({}, 1)},
      {"BouncedOneAtATime", Bounced<DirectDevice>({.max_in_flight = 1}, 8)},
      {"BouncedUring", Bounced<UringDevice>({}, 8)},
      {"BouncedTroubled", Bounced<UringDevice>({.queue = {.faults = Troubles()}}, 8)},
  };
}

INSTANTIATE_TEST_SUITE_P(Devices, BlockDeviceConformanceTest,
                         testing::Combine(testing::ValuesIn(Cases()),
                                          testing::Values(Memory::kSmallPages, Memory::kHugePages)),
                         [](const auto& tested) {
                           return std::get<DeviceCase>(tested.param).name +
                                  (std::get<Memory>(tested.param) == Memory::kHugePages
                                       ? "HugePages"
                                       : "");
                         });

}  // namespace
}  // namespace picchio
