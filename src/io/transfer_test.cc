#include "io/transfer.h"

#include <cerrno>
#include <vector>

#include "base/aligned_buffer.h"
#include "support/test_support.h"

namespace picchio {
namespace {

class TransferTest : public testing::Test {
 protected:
  static constexpr uint64_t kUnit = 4096;

  std::span<std::byte> Memory(size_t offset, size_t bytes) {
    return memory_.bytes().subspan(offset, bytes);
  }
  // Answers the next request in full and tells what it was: its bytes, negative where buffered.
  int64_t Step(Transfer& transfer) {
    const Transfer::Request request = transfer.Next();
    const auto bytes = static_cast<int64_t>(request.out.size());
    transfer.Answered(bytes, statistics_);
    return request.direct ? bytes : -bytes;
  }
  std::vector<int64_t> Steps(Transfer transfer) {
    std::vector<int64_t> steps;
    while (!transfer.finished()) steps.push_back(Step(transfer));
    EXPECT_OK(transfer.status());
    return steps;
  }

  const TransferFile buffered_{.name = "f"};
  const TransferFile direct_{.name = "f", .direct_alignment = kUnit};
  AlignedBuffer memory_ = AlignedBuffer::Allocate(64_KiB, kUnit).value();
  DeviceStatistics statistics_;
};

TEST_F(TransferTest, AsksForAllAtOnce) {
  EXPECT_THAT(Steps(Transfer(&buffered_, 7, Memory(1, 1000))), testing::ElementsAre(-1000));
  EXPECT_THAT(Steps(Transfer(&direct_, 8192, Memory(0, 8192))), testing::ElementsAre(8192));
  EXPECT_EQ(statistics_.Report().direct_bytes, 8192u);
  EXPECT_EQ(statistics_.Report().buffered_bytes, 1000u);
  EXPECT_EQ(statistics_.Report().num_resumed, 0u);
}

TEST_F(TransferTest, CutsAtTheLargestRequest) {
  EXPECT_THAT(Steps(Transfer(&buffered_, 0, Memory(0, 1000), 400)),
              testing::ElementsAre(-400, -400, -200));
  EXPECT_THAT(Steps(Transfer(&direct_, 0, Memory(0, 5 * kUnit), 2 * kUnit)),
              testing::ElementsAre(8192, 8192, 4096));
}

// No byte is touched: only the arithmetic of three reads over the limits of every system.
TEST_F(TransferTest, CutsReadsOverTheLimitsOfSystems) {
  for (const uint64_t bytes : {uint64_t{0x7ffff001}, uint64_t{1} << 31, 5_GiB + 4096}) {
    uint64_t sum = 0;
    Transfer transfer(&direct_, 1_GiB, {memory_.data(), bytes});
    while (!transfer.finished()) {
      const Transfer::Request request = transfer.Next();
      ASSERT_LE(request.out.size(), 1_GiB);
      ASSERT_EQ(request.offset, 1_GiB + sum);
      ASSERT_EQ(request.out.data(), memory_.data() + sum);
      sum += request.out.size();
      transfer.Answered(static_cast<int64_t>(request.out.size()), statistics_);
    }
    EXPECT_EQ(sum, bytes);
  }
}

TEST_F(TransferTest, TheLastPartialBlockComesThroughThePageCache) {
  EXPECT_THAT(Steps(Transfer(&direct_, kUnit, Memory(0, 2 * kUnit + 100))),
              testing::ElementsAre(8192, -100));
  EXPECT_THAT(Steps(Transfer(&direct_, kUnit, Memory(0, 100))), testing::ElementsAre(-100));
}

TEST_F(TransferTest, WhatIsNotAlignedIsReadBuffered) {
  EXPECT_THAT(Steps(Transfer(&direct_, 512, Memory(0, kUnit))), testing::ElementsAre(-4096));
  EXPECT_THAT(Steps(Transfer(&direct_, 0, Memory(512, kUnit))), testing::ElementsAre(-4096));
}

TEST_F(TransferTest, ContinuesAfterAShortAnswer) {
  Transfer transfer(&direct_, 0, Memory(0, 4 * kUnit));
  transfer.Answered(kUnit, statistics_);
  EXPECT_EQ(transfer.Next().offset, kUnit);
  EXPECT_TRUE(transfer.Next().direct);
  transfer.Answered(kUnit + 512, statistics_);  // The half unit is asked for again.
  EXPECT_EQ(transfer.Next().offset, 2 * kUnit);
  EXPECT_TRUE(transfer.Next().direct);
  EXPECT_EQ(transfer.Next().out.size(), 2 * kUnit);
  transfer.Answered(512, statistics_);  // From here no unbuffered request can go on.
  EXPECT_EQ(transfer.Next().offset, 2 * kUnit + 512);
  EXPECT_FALSE(transfer.Next().direct);
  EXPECT_EQ(transfer.Next().out.size(), 2 * kUnit - 512);
  EXPECT_EQ(Step(transfer), -static_cast<int64_t>(2 * kUnit - 512));
  EXPECT_TRUE(transfer.finished());
  EXPECT_EQ(statistics_.Report().num_resumed, 3u);
  EXPECT_EQ(statistics_.Report().num_direct_failures, 0u);
}

TEST_F(TransferTest, RepeatsWhatWasInterrupted) {
  Transfer transfer(&buffered_, 0, Memory(0, 100));
  for (int i = 0; i < 90; ++i) transfer.Answered(i % 2 == 0 ? -EINTR : -EAGAIN, statistics_);
  EXPECT_EQ(Step(transfer), -100);
  EXPECT_OK(transfer.status());
}

TEST_F(TransferTest, WhatIsInterruptedForEverFails) {
  Transfer transfer(&direct_, 0, Memory(0, kUnit));
  int answers = 0;
  for (; !transfer.finished(); ++answers) {
    ASSERT_LT(answers, 1000);
    transfer.Answered(-EAGAIN, statistics_);
  }
  EXPECT_THAT(transfer.status(), Fails(Code::kIoError, "f at byte 0"));
}

TEST_F(TransferTest, WhatFailsUnbufferedIsTriedBuffered) {
  Transfer transfer(&direct_, 0, Memory(0, 4 * kUnit));
  transfer.Answered(2 * kUnit, statistics_);
  transfer.Answered(-EINVAL, statistics_);
  EXPECT_FALSE(transfer.finished());
  EXPECT_EQ(Step(transfer), -static_cast<int64_t>(2 * kUnit));
  EXPECT_OK(transfer.status());

  Transfer again(&direct_, 0, Memory(0, kUnit));
  again.Answered(-EIO, statistics_);
  again.Answered(-EIO, statistics_);
  EXPECT_THAT(again.status(), Fails(Code::kIoError, "cannot read f at byte 0"));
  EXPECT_EQ(again.status().native_error(), EIO);

  EXPECT_EQ(statistics_.Report().num_direct_failures, 2u);
  EXPECT_THAT(
      statistics_.Report().notes,
      testing::ElementsAre(testing::HasSubstr("f: an unbuffered read at byte 8192 failed")));
}

TEST_F(TransferTest, TheEndOfTheFileIsAnError) {
  Transfer transfer(&direct_, 0, Memory(0, 2 * kUnit));
  transfer.Answered(kUnit, statistics_);
  transfer.Answered(0, statistics_);
  EXPECT_THAT(transfer.status(), Fails(Code::kIoError, "f ends at byte 4096, 4096 bytes before"));
}

}  // namespace
}  // namespace picchio
