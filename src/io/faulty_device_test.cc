#include "io/faulty_device.h"

#include <algorithm>
#include <map>
#include <vector>

#include "io/buffered_device.h"
#include "support/build_folder.h"
#include "support/test_support.h"

namespace picchio {
namespace {

class FaultyDeviceTest : public testing::Test {
 protected:
  void SetUp() override { WriteAll(folder_ / "file", std::string(4096, 'a')); }

  void Open(const FaultPlan& plan) {
    const std::vector<Path> paths = {folder_ / "file"};
    queue_.reset();
    device_ = std::make_unique<FaultyDevice>(BufferedDevice::Open(paths, {}).value(), plan);
    queue_ = device_->OpenQueue().value();
    bytes_.assign(kReads, std::byte{0});
  }
  // One byte each; the codes by tag.
  std::map<uint64_t, Code> ReadAll() {
    std::vector<DeviceRead> reads;
    for (uint64_t tag = 0; tag < kReads; ++tag) {
      reads.push_back({.offset = tag, .out = {&bytes_[tag], 1}, .tag = tag});
    }
    std::map<uint64_t, Code> codes;
    size_t submitted = 0;
    DeviceCompletion batch[7];
    while (codes.size() < kReads) {
      submitted += queue_->Submit(std::span(reads).subspan(submitted));
      const size_t count = queue_->Reap(batch, kForever);
      for (const DeviceCompletion& completion : std::span(batch).first(count)) {
        codes[completion.tag] = completion.status.code();
        order_.push_back(completion.tag);
      }
    }
    return codes;
  }

  static constexpr uint64_t kReads = 400;
  BuildTemporaryFolder folder_;
  std::unique_ptr<FaultyDevice> device_;
  std::unique_ptr<ReadQueue> queue_;
  std::vector<std::byte> bytes_;
  std::vector<uint64_t> order_;
};

TEST_F(FaultyDeviceTest, FailsByRateAndTheSeedDecides) {
  Open({.seed = 3, .fail_rate = 0.2});
  const auto codes = ReadAll();
  Open({.seed = 3, .fail_rate = 0.2});
  EXPECT_EQ(ReadAll(), codes);
  Open({.seed = 4, .fail_rate = 0.2});
  EXPECT_NE(ReadAll(), codes);
  const auto failed = std::count_if(codes.begin(), codes.end(),
                                    [](const auto& entry) { return entry.second != Code::kOk; });
  EXPECT_NEAR(static_cast<double>(failed), 80, 40);  // Five standard deviations.
}

TEST_F(FaultyDeviceTest, FailsByNumberAndLeavesGarbage) {
  Open({.fail_reads = {{3, Code::kIoError}, {9, Code::kUnavailable}}});
  const auto codes = ReadAll();
  for (const auto& [tag, code] : codes) {
    EXPECT_EQ(code, tag == 3 ? Code::kIoError : tag == 9 ? Code::kUnavailable : Code::kOk);
    EXPECT_EQ(bytes_[tag] == std::byte{'a'}, code == Code::kOk);
  }
}

TEST_F(FaultyDeviceTest, ShufflesWhatHasCompleted) {
  Open({.refuse_rate = 0.5, .shuffle = true});
  (void)ReadAll();
  EXPECT_FALSE(std::is_sorted(order_.begin(), order_.end()));
  std::sort(order_.begin(), order_.end());
  EXPECT_EQ(std::adjacent_find(order_.begin(), order_.end()), order_.end());
}

TEST_F(FaultyDeviceTest, ADeviceThatDoesNotAnswerIsWaitedForNoLongerThanAsked) {
  Open({.delay_rate = 1, .delay = std::chrono::hours(1)});
  const DeviceRead read{.offset = 0, .out = {bytes_.data(), 1}};
  ASSERT_EQ(queue_->Submit({&read, 1}), 1u);
  DeviceCompletion completion;
  EXPECT_EQ(queue_->Reap({&completion, 1}, std::chrono::milliseconds(1)), 0u);
  queue_->Drain();
  EXPECT_EQ(queue_->Reap({&completion, 1}, kForever), 0u);
}

}  // namespace
}  // namespace picchio
