#include "experts/faulty_expert_source.h"

#include <algorithm>

#include "experts/records_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr int kReads = 400;

// Reads expert n % 8 as the n-th read, all one after the other, and returns how each ended.
std::vector<Code> CodesOf(FaultyExpertSource& source) {
  std::vector<Code> codes;
  std::vector<std::byte> memory(source.slot_bytes());
  for (int i = 0; i < kReads; ++i) {
    const ReadRequest request{.key = {0, i % 8},
                              .slot = {.bytes = memory.size(), .data = memory.data()}};
    EXPECT_EQ(source.Submit({&request, 1}), 1u);
    Completion completion;
    EXPECT_EQ(source.Reap({&completion, 1}, kForever), 1u);
    codes.push_back(completion.status.code());
    if (!completion.status.ok()) {
      EXPECT_TRUE(completion.status.message().starts_with(ToString(request.key) + ": "));
      EXPECT_NE(memory, TestRecord(request.key, source.layout())) << "no garbage";
    }
  }
  return codes;
}

FaultyExpertSource Make(FaultPlan plan) {
  return FaultyExpertSource(TestMemorySource(TestLayout(), 0, 1, 8), std::move(plan));
}

TEST(FaultyExpertSourceTest, FailsAtAboutItsRateWithAllItsCodes) {
  FaultyExpertSource source = Make({.seed = 9, .fail_rate = 0.25});
  const std::vector<Code> codes = CodesOf(source);
  // Binomial: 100 expected, standard deviation 8.7.
  EXPECT_NEAR(static_cast<double>(source.num_injected()), 100, 45);
  EXPECT_EQ(static_cast<uint64_t>(kReads - std::count(codes.begin(), codes.end(), Code::kOk)),
            source.num_injected());
  for (const Code code : FaultPlan{}.codes) EXPECT_THAT(codes, testing::Contains(code));
}

TEST(FaultyExpertSourceTest, TheSeedDecides) {
  const auto run = [](uint64_t seed) {
    FaultyExpertSource source = Make({.seed = seed, .fail_rate = 0.5});
    return CodesOf(source);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(FaultyExpertSourceTest, FailsTheReadsThatAreNamed) {
  FaultyExpertSource source = Make({.fail_reads = {{0, Code::kCorrupt}, {17, Code::kUnavailable}}});
  std::vector<Code> expected(kReads, Code::kOk);
  expected[0] = Code::kCorrupt;
  expected[17] = Code::kUnavailable;
  EXPECT_EQ(CodesOf(source), expected);
}

TEST(FaultyExpertSourceTest, DelaysEndWithTheTimeoutOrTheDelay) {
  for (const auto& [delay, ends] : {std::pair<nanoseconds, bool>(std::chrono::hours(1), false),
                                    std::pair<nanoseconds, bool>(milliseconds(2), true)}) {
    FaultyExpertSource source = Make({.delay_rate = 1, .delay = delay});
    std::vector<std::byte> memory(source.slot_bytes());
    const ReadRequest request{.slot = {.bytes = memory.size(), .data = memory.data()}};
    ASSERT_EQ(source.Submit({&request, 1}), 1u);
    Completion completion;
    if (ends) {
      EXPECT_EQ(source.Reap({&completion, 1}, kForever), 1u);
      EXPECT_OK(completion.status);
    } else {
      EXPECT_EQ(source.Reap({&completion, 1}, nanoseconds(0)), 0u);
      EXPECT_EQ(source.Reap({&completion, 1}, milliseconds(1)), 0u);
      source.Drain();
    }
  }
}

TEST(FaultyExpertSourceTest, ShufflesAndRefuses) {
  FaultyExpertSource source = Make({.refuse_rate = 1, .shuffle = true});
  std::vector<std::byte> memory(source.slot_bytes() * 8);
  std::vector<ReadRequest> requests;
  for (uint64_t i = 0; i < 8; ++i) {
    requests.push_back(
        {.key = {0, static_cast<int32_t>(i)},
         .slot = {.bytes = source.slot_bytes(), .data = memory.data() + i * source.slot_bytes()},
         .tag = i});
  }
  bool partial = false;
  bool disordered = false;
  for (int round = 0; round < 20; ++round) {
    size_t accepted = 0;
    while (accepted < 8) {
      const size_t taken = source.Submit(std::span(requests).subspan(accepted));
      partial |= accepted + taken < 8;
      accepted += taken;
    }
    std::vector<Completion> done(8);
    for (size_t count = 0; count < 8;) {
      count += source.Reap(std::span(done).subspan(count), kForever);
    }
    disordered |= !std::is_sorted(done.begin(), done.end(),
                                  [](const auto& a, const auto& b) { return a.tag < b.tag; });
  }
  EXPECT_TRUE(partial);
  EXPECT_TRUE(disordered);
}

}  // namespace
}  // namespace picchio
