#include "io/buffered_device.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(BufferedDeviceTest, ReadsSeveralFiles) {
  TemporaryFolder folder;
  WriteAll(folder / "a", "first file");
  WriteAll(folder / "b", "the second");
  const std::vector<Path> paths = {folder / "a", folder / "b"};
  ASSERT_OK_AND_ASSIGN(const auto device, BufferedDevice::Open(paths, {.num_threads = 2}));
  EXPECT_EQ(device->num_files(), 2u);
  EXPECT_EQ(device->file_bytes(1), 10u);
  EXPECT_EQ(device->alignment(), 1u);
  EXPECT_THAT(device->name(), testing::HasSubstr("a and 1 more"));

  ASSERT_OK_AND_ASSIGN(const auto queue, device->OpenQueue());
  std::string out(9, '.');
  const auto bytes = std::as_writable_bytes(std::span(out));
  const std::vector<DeviceRead> reads = {
      {.file_idx = 0, .offset = 6, .out = bytes.first(4), .tag = 1},
      {.file_idx = 1, .offset = 5, .out = bytes.last(5), .tag = 2}};
  ASSERT_EQ(queue->Submit(reads), 2u);
  std::vector<DeviceCompletion> done(2);
  for (size_t count = 0; count < 2;) {
    count += queue->Reap(std::span(done).subspan(count), kForever);
  }
  EXPECT_OK(done[0].status);
  EXPECT_OK(done[1].status);
  EXPECT_EQ(out, "fileecond");
}

TEST(BufferedDeviceTest, RefusesWhatIsNotThere) {
  TemporaryFolder folder;
  const std::vector<Path> paths = {folder / "none"};
  EXPECT_THAT(BufferedDevice::Open(paths, {}), Fails(Code::kNotFound, "none does not exist"));
  EXPECT_THAT(BufferedDevice::Open({}, {}), Fails(Code::kInvalidArgument, "at least one file"));
  WriteAll(folder / "none", "now it is");
  EXPECT_THAT(BufferedDevice::Open(paths, {.num_threads = 0}),
              Fails(Code::kInvalidArgument, "0 threads"));
  EXPECT_THAT(BufferedDevice::Open(paths, {.max_in_flight = 0}),
              Fails(Code::kInvalidArgument, "0 reads in flight"));
}

// A file that lets reads through one by one and remembers which came.
class Gate {
 public:
  // Runs on the queue's threads.
  Status Pass(uint64_t offset) {
    std::unique_lock lock(mutex_);
    arrived_.push_back(offset);
    changed_.notify_all();
    changed_.wait(lock, [this] { return tickets_ > 0; });
    --tickets_;
    return Status::Ok();
  }
  void Let(int tickets) {
    const std::scoped_lock lock(mutex_);
    tickets_ += tickets;
    changed_.notify_all();
  }
  std::vector<uint64_t> WaitForArrivals(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_.size() >= count; });
    return arrived_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int tickets_ = 0;
  std::vector<uint64_t> arrived_;
};

class GatedFile final : public RandomAccessFile {
 public:
  explicit GatedFile(Gate* gate) : gate_(gate) {}
  uint64_t size() const override { return 1000; }
  const std::string& name() const override { return name_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> /*out*/) const override {
    return gate_->Pass(offset);
  }

 private:
  Gate* const gate_;
  const std::string name_ = "gated";
};

class GatedQueueTest : public testing::Test {
 protected:
  void Open(int num_threads) {
    std::vector<std::unique_ptr<const RandomAccessFile>> files;
    files.push_back(std::make_unique<GatedFile>(&gate_));
    device_ = BufferedDevice::Create(std::move(files), {.num_threads = num_threads}).value();
    queue_ = device_->OpenQueue().value();
  }

  void Submit(uint64_t tag, ReadPriority priority) {
    const DeviceRead read{.offset = tag, .out = {&byte_, 1}, .tag = tag, .priority = priority};
    ASSERT_EQ(queue_->Submit({&read, 1}), 1u);
  }

  std::vector<std::pair<uint64_t, Code>> ReapAll(size_t count) {
    std::vector<std::pair<uint64_t, Code>> all;
    DeviceCompletion completion;
    while (all.size() < count && queue_->Reap({&completion, 1}, kForever) == 1) {
      all.emplace_back(completion.tag, completion.status.code());
    }
    return all;
  }

  Gate gate_;
  std::byte byte_{};
  std::unique_ptr<BufferedDevice> device_;
  std::unique_ptr<ReadQueue> queue_;
};

TEST_F(GatedQueueTest, DemandsGoBeforePrefetchesAndPromotedOnesAmongThem) {
  Open(1);
  Submit(0, ReadPriority::kPrefetch);
  (void)gate_.WaitForArrivals(1);  // The thread is busy with it: all others wait in line.
  Submit(1, ReadPriority::kPrefetch);
  Submit(2, ReadPriority::kPrefetch);
  Submit(3, ReadPriority::kPrefetch);
  Submit(4, ReadPriority::kDemand);
  queue_->Promote(2);
  queue_->Promote(0);   // Already being read.
  queue_->Promote(77);  // Not there.
  Submit(5, ReadPriority::kDemand);
  gate_.Let(6);
  EXPECT_THAT(gate_.WaitForArrivals(6), testing::ElementsAre(0, 4, 2, 5, 1, 3));
  EXPECT_EQ(ReapAll(6).size(), 6u);
}

TEST_F(GatedQueueTest, CancelTakesWhatHasNotBegun) {
  Open(1);
  Submit(0, ReadPriority::kDemand);
  (void)gate_.WaitForArrivals(1);
  Submit(1, ReadPriority::kDemand);
  Submit(2, ReadPriority::kPrefetch);
  queue_->Cancel(0);
  queue_->Cancel(1);
  queue_->Cancel(2);
  queue_->Cancel(3);
  EXPECT_THAT(ReapAll(2), testing::UnorderedElementsAre(std::pair(1u, Code::kCancelled),
                                                        std::pair(2u, Code::kCancelled)));
  gate_.Let(1);
  EXPECT_THAT(ReapAll(1), testing::ElementsAre(std::pair(0u, Code::kOk)));
}

TEST_F(GatedQueueTest, AsManyReadsAsThreadsAreAtTheDeviceAtOnce) {
  Open(3);
  for (uint64_t tag = 0; tag < 5; ++tag) Submit(tag, ReadPriority::kDemand);
  EXPECT_EQ(gate_.WaitForArrivals(3).size(), 3u);
  gate_.Let(5);
  EXPECT_EQ(ReapAll(5).size(), 5u);
}

TEST_F(GatedQueueTest, ReapTimesOutAndTheReadGoesOn) {
  Open(1);
  Submit(0, ReadPriority::kDemand);
  DeviceCompletion completion;
  EXPECT_EQ(queue_->Reap({&completion, 1}, std::chrono::milliseconds(1)), 0u);
  gate_.Let(1);
  EXPECT_THAT(ReapAll(1), testing::ElementsAre(std::pair(0u, Code::kOk)));
}

TEST_F(GatedQueueTest, DrainAndDestructionWaitForWhatHasBegun) {
  for (const bool drain : {true, false}) {
    Open(2);
    const size_t before = drain ? 0 : 2;
    for (uint64_t tag = 0; tag < 6; ++tag) Submit(tag, ReadPriority::kDemand);
    (void)gate_.WaitForArrivals(before + 2);
    std::atomic<bool> opened = false;
    std::thread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      opened = true;
      gate_.Let(2);
    });
    if (drain) {
      queue_->Drain();
    } else {
      queue_.reset();
    }
    EXPECT_TRUE(opened);
    opener.join();
    EXPECT_EQ(gate_.WaitForArrivals(0).size(), before + 2) << "the rest was read nevertheless";
  }
}

}  // namespace
}  // namespace picchio
