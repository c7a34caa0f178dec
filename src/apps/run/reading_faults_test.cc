// Whatever goes wrong with reads, at one request in a thousand and at one in twenty, in every way
// of reading and whenever they are computed with: the logits have the same bits where there is
// another place to read from, and the run stops in words where there is none.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "apps/run/ways_of_reading_test_support.h"

namespace picchio {
namespace {

constexpr IoKind kDevices[] = {IoKind::kBuffered, IoKind::kDirect, IoKind::kUring};
constexpr double kRates[] = {0.001, 0.05};
// Scorings until something must have gone wrong: each reads some 150 records.
constexpr int kMostScorings = 200;
// Of a FaultPlan: the index is read as if nothing were wrong, and at either rate one of the first
// fifty records is not, so that no run has to be long.
constexpr uint64_t kEarly = 91;

class ReadingFaults : public WaysOfReading {
 protected:
  // Every device with every manner, the rates in turn: all three in all pairs.
  struct Case {
    IoKind kind;
    double rate;
    Manner manner;
  };
  static std::vector<Case> Cases(size_t turn = 0) {
    std::vector<Case> cases;
    for (size_t device = 0; device < std::size(kDevices); ++device) {
      for (size_t manner = 0; manner < std::size(kManners); ++manner) {
        cases.push_back({kDevices[device], kRates[(device + manner + turn) % 2], kManners[manner]});
      }
    }
    return cases;
  }

  // Scores again and again until `happened`; every one must give the reference's bits.
  void ScoreUntil(Scored& scored, const std::function<bool()>& happened) {
    EXPECT_TRUE(scored.SameBits(*reference_));
    for (int i = 0; !happened() && i < kMostScorings; ++i) {
      ASSERT_OK(scored.Score());
      EXPECT_TRUE(scored.SameBits(*reference_));
    }
    EXPECT_TRUE(happened());
  }

  // Scores the model that is nothing but a store until a run stops; what it says then. Those before
  // must give the reference's bits.
  Status ScoreUntilItStops(const EngineOptions& options) {
    Scored scored;
    scored.engine = Engine::Open(alone(), options).value();
    for (int i = 0; i < kMostScorings; ++i) {
      Status status = scored.Score();
      if (!status.ok()) return status;
      EXPECT_TRUE(scored.SameBits(*reference_));
    }
    return Status::Ok();
  }
};

// One sentence that names an expert and says what happened where.
void ExpectSaid(const Status& status, std::string_view what) {
  EXPECT_THAT(status.message(), testing::StartsWith("layer "));
  EXPECT_THAT(status.message(), testing::HasSubstr(" expert "));
  EXPECT_THAT(status.message(), testing::HasSubstr(std::string(what)));
  EXPECT_EQ(std::ranges::count(status.message(), '\n'), 0);
}

// Requests are interrupted, answered in part, or fail past the page cache, where they are repeated
// through it and counted: no tier notices.
TEST_F(ReadingFaults, WhatFailsUnbufferedIsReadBuffered) {
  WriteStore();
  const bool direct_works = DirectWorks();
  for (const bool flat_off : {false, true}) {
    for (const auto& [kind, rate, manner] : Cases(flat_off ? 1 : 0)) {
      const auto faults = std::make_shared<TransferFaults>(
          TransferFaultPlan{.interrupt_rate = rate, .short_rate = rate, .direct_error_rate = rate});
      Scored scored(folder(),
                    SmallCache({.flat_off = flat_off, .io = kind, .faults = faults}, manner));
      ASSERT_NE(scored.engine, nullptr);
      const BlockDevice& device = *scored.engine->devices()[0].device;
      const bool repeats = direct_works && kind != IoKind::kBuffered && rate > kRates[0];
      ScoreUntil(scored, [&] {
        return faults->num_altered() > 0 && (!repeats || device.Report().num_direct_failures > 0);
      });
      for (const TierStats& tier : scored.engine->tiers()) EXPECT_EQ(tier.failed, 0U);
      EXPECT_THAT(scored.notices, testing::IsEmpty());
      if (!repeats) continue;
      const DeviceReport report = device.Report();
      EXPECT_GT(report.buffered_bytes, 0U);
      ASSERT_FALSE(report.notes.empty());
      EXPECT_THAT(report.notes.back(), testing::HasSubstr("repeated through the page cache"));
    }
  }
}

// Reads that fail for good, demanded or ahead, come from the container, or stop the run where there
// is none.
TEST_F(ReadingFaults, ReadsThatFailComeFromTheNextTierOrEndTheRunInWords) {
  WriteStore();
  MakeAlone();
  for (const auto& [kind, rate, manner] : Cases()) {
    const EngineOptions options = SmallCache(
        {.io = kind,
         .wrap_store =
             WithFaults({.seed = kEarly, .fail_rate = rate, .shuffle = rate > kRates[0]})},
        manner);
    Scored scored(folder(), options);
    ASSERT_NE(scored.engine, nullptr);
    const auto tiers = scored.engine->tiers();
    ASSERT_EQ(tiers.size(), 2U) << scored.engine->store_refusal();
    ScoreUntil(scored, [&] { return tiers[0].failed > 0; });
    EXPECT_EQ(scored.notices.size(), 1U);
    // A wrong guess that failed may be given up before the container has served it.
    EXPECT_LE(tiers[1].served, tiers[0].failed);
    if (manner.prefetch == Prefetch::kOff) {
      EXPECT_EQ(tiers[1].served, tiers[0].failed);
    }

    const Status stopped = ScoreUntilItStops(options);
    EXPECT_FALSE(stopped.ok());
    ExpectSaid(stopped, "injected fault (");
    ExpectSaid(stopped, "copy the store again, or convert the checkpoint again");
  }
}

// A device that stops answering in the middle of a run: the container serves, or the run ends and
// says where. Nobody waits for the device, not even at the end. All of them at once, as each of
// them waits.
TEST_F(ReadingFaults, AStoreThatStopsAnsweringIsGivenUp) {
  WriteStore();
  MakeAlone();
  std::vector<std::thread> runs;
  for (const auto& [kind, rate, manner] : Cases(1)) {
    EngineOptions options = SmallCache(
        {.io = kind,
         .num_io_threads = 2,
         .wrap_store =
             WithFaults({.seed = kEarly, .delay_rate = rate, .delay = std::chrono::hours(1)})},
        manner);
    options.num_threads = 1;
    options.read_timeout = std::chrono::milliseconds(500);
    runs.emplace_back([this, options] {
      Scored scored(folder(), options);
      ASSERT_NE(scored.engine, nullptr);
      const auto tiers = scored.engine->tiers();
      ASSERT_EQ(tiers.size(), 2U) << scored.engine->store_refusal();
      ScoreUntil(scored, [&] { return tiers[0].given_up > 0; });
      EXPECT_GT(tiers[1].served, 0U);
      ASSERT_EQ(scored.notices.size(), 1U);
      EXPECT_THAT(scored.notices[0], testing::HasSubstr("experts.picchioflat does not answer"));
    });
    runs.emplace_back([this, options] {
      const Status stopped = ScoreUntilItStops(options);
      EXPECT_EQ(stopped.code(), Code::kUnavailable);
      ExpectSaid(stopped, "experts.picchioflat has not answered for 0.5 seconds");
    });
  }
  for (std::thread& run : runs) run.join();
}

// Files that change under a run that has them open.
TEST_F(ReadingFaults, TheStoreMayBeTakenAwayDuringTheRun) {
  for (const IoKind kind : kAllKinds) {
    for (const std::string what : {"cut short", "unlinked", "replaced"}) {
      WriteStore();
      Scored scored(folder(), {.io = kind}, 1);
      ASSERT_NE(scored.engine, nullptr);
      if (what == "cut short") {
        std::filesystem::resize_file(store(), 3 * 4096);
      } else if (what == "unlinked") {
        std::filesystem::remove(store());
      } else {
        WriteAll(folder() / "other", std::string(bytes_.size(), 'x'));
        std::filesystem::rename(folder() / "other", store());
      }
      ASSERT_OK(scored.Score()) << what;
      EXPECT_TRUE(scored.SameBits(*reference_)) << what;
      EXPECT_EQ(scored.engine->tiers()[0].failed > 0, what == "cut short") << what;
    }
  }
}

}  // namespace
}  // namespace picchio
