// Whatever way the bytes come, and whatever goes wrong on it, the logits are the same or the run
// stops in words.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>
#include <vector>

#include "apps/child_process_test_support.h"
#include "apps/interrupt.h"
#include "apps/pack/store_test_support.h"
#include "apps/run/scored_test_support.h"
#include "apps/run/store_models_test_support.h"
#include "base/json.h"
#include "io/direct_device.h"
#include "io/faulty_device.h"
#include "io/restricted_process_test_support.h"
#include "io/uring_ring.h"
#include "support/build_folder.h"
#include "support/test_support.h"

namespace picchio {
namespace {

constexpr const char* kStoreFile = "experts.picchioflat";
constexpr IoKind kAllKinds[] = {IoKind::kAuto, IoKind::kBuffered, IoKind::kDirect, IoKind::kUring};

class WaysOfReading : public testing::Test {
 protected:
  void SetUp() override {
    MakeModelWithoutStore("qwen3_moe_tiny", PayloadKind::kInt4, folder());
    bytes_ = StoreWriter(folder()).Make(3).Bytes();
    reference_.emplace(folder(), StorageOptions{.flat_off = true, .io = IoKind::kBuffered});
    ASSERT_FALSE(reference_->logits.empty());
  }

  Path folder() const { return temporary_ / "model"; }
  Path store() const { return folder() / kStoreFile; }
  void WriteStore() { Write(bytes_); }
  void Write(const std::string& bytes) {
    WriteAll(store(), bytes);
    // Dirty pages are written before an unbuffered read, which they delay.
    ASSERT_OK(File::OpenForWrite(store()).value().Sync());
  }
  // Whether files of this folder can be read past the page cache.
  bool DirectWorks() const {
    const Path path = store();
    return DirectDevice::Open({&path, 1}, {}).value()->alignment() > 1;
  }

  // A cache with slots for what two layers use, and as many to read ahead.
  EngineOptions SmallCache(EngineOptions options) const {
    const auto setup = EngineSetup::Open(folder(), options).value();
    const MemoryPlan plan = setup->Plan().value();
    const uint64_t slot_bytes = plan.cache_bytes / plan.num_slots;
    options.memory.cache_bytes = 4 * setup->config().experts_per_token * slot_bytes;
    return options;
  }

  BuildTemporaryFolder temporary_;
  std::string bytes_;  // Of a store of version 3.
  std::optional<Scored> reference_;
};

TEST_F(WaysOfReading, EveryWayGivesTheSameBits) {
  for (const uint32_t version : {2U, 3U}) {
    Write(StoreWriter(folder()).Make(version).Bytes());
    for (const IoKind kind : kAllKinds) {
      const Scored scored(folder(), {.flat_trust = true, .io = kind});
      EXPECT_TRUE(scored.SameBits(*reference_)) << version;
      ASSERT_EQ(scored.engine->devices().size(), 2U);
      const DeviceReport report = scored.engine->devices()[0].device->Report();
      EXPECT_GT(report.num_reads, 0U);
      const bool direct = kind != IoKind::kBuffered && DirectWorks();
      EXPECT_EQ(report.direct_bytes > 0, direct) << scored.engine->devices()[0].choice;
      EXPECT_EQ(scored.engine->tiers()[0].failed, 0U);
    }
  }
}

TEST_F(WaysOfReading, TheContainerIsReadPastThePageCacheWhereAsked) {
  WriteStore();
  for (const IoKind kind : kAllKinds) {
    const Scored scored(folder(), {.flat_off = true, .io = kind, .queue_depth = 4});
    EXPECT_TRUE(scored.SameBits(*reference_));
    ASSERT_EQ(scored.engine->devices().size(), 1U);
    const DeviceReport report = scored.engine->devices()[0].device->Report();
    const bool asked = kind == IoKind::kDirect || kind == IoKind::kUring;
    EXPECT_EQ(report.direct_bytes > 0, asked && DirectWorks());
    EXPECT_EQ(report.num_direct_failures, 0U);
  }
}

// Unbuffered requests that fail are repeated buffered, and counted: no tier notices.
TEST_F(WaysOfReading, WhatFailsUnbufferedIsReadBuffered) {
  WriteStore();
  if (!DirectWorks()) GTEST_SKIP() << "no unbuffered reads in the temporary folder";
  for (const IoKind kind : {IoKind::kDirect, IoKind::kUring}) {
    for (const bool flat_off : {false, true}) {
      for (const double rate : {0.001, 0.05}) {
        const auto faults = std::make_shared<TransferFaults>(TransferFaultPlan{
            .interrupt_rate = rate, .short_rate = rate, .direct_error_rate = rate});
        Scored scored(folder(), {.flat_off = flat_off, .io = kind, .faults = faults}, 1);
        // Threads draw in any order: as often as it takes for something to happen.
        for (int i = 0; i < 6 || (faults->num_altered() == 0 && i < 200); ++i) {
          EXPECT_TRUE(scored.SameBits(*reference_));
          ASSERT_OK(scored.Score());
        }
        EXPECT_TRUE(scored.SameBits(*reference_));
        EXPECT_GT(faults->num_altered(), 0U);
        for (const TierStats& tier : scored.engine->tiers()) EXPECT_EQ(tier.failed, 0U);
        EXPECT_THAT(scored.notices, testing::IsEmpty());
        const DeviceReport report = scored.engine->devices()[0].device->Report();
        if (rate < 0.01) continue;
        EXPECT_GT(report.num_direct_failures, 0U);
        EXPECT_GT(report.buffered_bytes, 0U);
        ASSERT_FALSE(report.notes.empty());
        EXPECT_THAT(report.notes.back(), testing::HasSubstr("repeated through the page cache"));
      }
    }
  }
}

std::function<std::unique_ptr<BlockDevice>(std::unique_ptr<BlockDevice>)> WithFaults(
    const FaultPlan& plan) {
  return [plan](std::unique_ptr<BlockDevice> device) -> std::unique_ptr<BlockDevice> {
    return std::make_unique<FaultyDevice>(std::move(device), plan);
  };
}

// In step with the reads or after them, ahead of the next layer or not.
TEST_F(WaysOfReading, OverlapAndPrefetchChangeNoBit) {
  WriteStore();
  for (const bool async_moe : {true, false}) {
    for (const Prefetch prefetch : {Prefetch::kOff, Prefetch::kAuto, Prefetch::kOn}) {
      for (const uint32_t span : {1U, 8U, 12U}) {
        EngineOptions options = SmallCache(Scored::Options());
        options.async_moe = async_moe;
        options.prefetch = prefetch;
        options.memory.prefill_span = span;
        const Scored scored(folder(), options);
        ASSERT_NE(scored.engine, nullptr);
        EXPECT_TRUE(scored.SameBits(*reference_));
        const bool on = prefetch == Prefetch::kOn;
        EXPECT_EQ(scored.engine->memory().prefetch_slots > 0, on);
        const CacheStats stats = scored.engine->experts().stats();
        EXPECT_EQ(stats.prefetched > 0, on);
        EXPECT_LE(stats.prefetch_used, stats.prefetched);
        const StepStats step = scored.engine->forward().stats();
        EXPECT_EQ(step.foreseeable > 0, on && span <= 8);
        EXPECT_LE(step.foreseen, step.foreseeable);
        if (on && span == 1) {
          EXPECT_GT(stats.prefetch_used, 0U);
          EXPECT_GT(step.foreseen, 0U);
        }
      }
    }
  }
}

// One read in a thousand fails, demanded or ahead: the container serves it.
TEST_F(WaysOfReading, OverlapAndPrefetchWithFaultsChangeNoBit) {
  WriteStore();
  for (const IoKind kind : {IoKind::kBuffered, IoKind::kUring}) {
    for (const bool async_moe : {true, false}) {
      for (const Prefetch prefetch : {Prefetch::kOff, Prefetch::kOn}) {
        // The first queue of the device reads the index: under this seed nothing happens to it.
        EngineOptions options = SmallCache(Scored::Options(
            {.io = kind,
             .wrap_store = WithFaults({.seed = 2, .fail_rate = 0.001, .shuffle = true})}));
        options.async_moe = async_moe;
        options.prefetch = prefetch;
        options.memory.prefill_span = 1;
        Scored scored(folder(), options);
        ASSERT_NE(scored.engine, nullptr);
        const auto tiers = scored.engine->tiers();
        ASSERT_EQ(tiers.size(), 2U) << scored.engine->store_refusal();
        for (int i = 0; tiers[0].failed == 0 && i < 200; ++i) {
          EXPECT_TRUE(scored.SameBits(*reference_));
          ASSERT_OK(scored.Score());
        }
        EXPECT_TRUE(scored.SameBits(*reference_));
        EXPECT_GT(tiers[0].failed, 0U);
        // A wrong guess that failed may be given up before the container has served it.
        EXPECT_LE(tiers[1].served, tiers[0].failed);
        if (prefetch == Prefetch::kOff) {
          EXPECT_EQ(tiers[1].served, tiers[0].failed);
        }
      }
    }
  }
}

// Reads that fail for good come from the container, or stop the run where there is none.
TEST_F(WaysOfReading, ReadsThatFailComeFromTheNextTierOrEndTheRunInWords) {
  WriteStore();
  for (const IoKind kind : {IoKind::kBuffered, IoKind::kUring}) {
    for (const double rate : {0.001, 0.05}) {
      // The first queue of the device reads the index: under this seed nothing happens to it.
      const StorageOptions options{
          .io = kind, .wrap_store = WithFaults({.seed = 2, .fail_rate = rate, .shuffle = true})};
      Scored scored(folder(), options, 1);
      ASSERT_NE(scored.engine, nullptr);
      const auto tiers = scored.engine->tiers();
      for (int i = 0; i < 6 || (tiers[0].failed == 0 && i < 200); ++i) {
        EXPECT_TRUE(scored.SameBits(*reference_));
        ASSERT_OK(scored.Score());
      }
      EXPECT_TRUE(scored.SameBits(*reference_));
      ASSERT_EQ(tiers.size(), 2U) << scored.engine->store_refusal();
      EXPECT_EQ(tiers[1].served, tiers[0].failed);
      EXPECT_GT(tiers[0].failed, 0U);
      EXPECT_EQ(scored.notices.size(), 1U);
    }
  }
}

// Files that change under a run that has them open.
TEST_F(WaysOfReading, TheStoreMayBeTakenAwayDuringTheRun) {
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

// A device that stops answering in the middle of a run: the container serves, or the run ends and
// says where. Nobody waits for the device, not even at the end.
TEST_F(WaysOfReading, AStoreThatStopsAnsweringIsGivenUp) {
  WriteStore();
  for (const IoKind kind : {IoKind::kBuffered, IoKind::kUring}) {
    // The first queue reads the index: under this seed it is not delayed.
    EngineOptions options = Scored::Options(
        {.io = kind,
         .wrap_store = WithFaults({.seed = 3, .delay_rate = 0.1, .delay = std::chrono::hours(1)})});
    options.read_timeout = std::chrono::milliseconds(200);
    Scored scored(folder(), options);
    ASSERT_NE(scored.engine, nullptr);
    ASSERT_EQ(scored.engine->tiers().size(), 2U);
    EXPECT_TRUE(scored.SameBits(*reference_));
    EXPECT_GT(scored.engine->tiers()[0].given_up, 0U);
    EXPECT_GT(scored.engine->tiers()[1].served, 0U);
    ASSERT_EQ(scored.notices.size(), 1U);
    EXPECT_THAT(scored.notices[0], testing::HasSubstr("experts.picchioflat does not answer"));
  }
}

// A run that is stopped while reads are at the device gives everything back, and can go on.
TEST_F(WaysOfReading, StoppedWithReadsInFlight) {
  WriteStore();
  {
    const Scored earlier(folder());
    ASSERT_OK(earlier.engine->SaveUseCounters());
  }
  for (const IoKind kind : {IoKind::kBuffered, IoKind::kUring}) {
    for (const bool goes_on : {false, true}) {
      EngineOptions options = Scored::Options(
          {.io = kind,
           .wrap_store = WithFaults({.delay_rate = 1, .delay = std::chrono::milliseconds(3)})});
      options.warm_start = true;
      ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Open(folder(), options));
      ASSERT_OK_AND_ASSIGN(Session session, engine->NewSession());
      const std::vector<int32_t> ids = {1, 5, 9, 2, 30, 7, 11, 4};
      std::atomic<bool> cancel{false};
      RunHooks hooks{.cancel = &cancel};
      hooks.on_progress = [&](const PromptProgress& at) { cancel = at.layer == 1; };
      const auto drop = [](uint32_t, std::span<const float>) {};
      const Status status = session.Score(ids, 0, drop, hooks).status();
      EXPECT_EQ(status.code(), Code::kCancelled) << status.ToString();
      // Preloads, which each layer's list tops up.
      EXPECT_GT(engine->experts().reads_in_flight(), 0U);
      if (!goes_on) continue;
      cancel = false;
      EXPECT_OK(session.Score(ids, 0, drop, {}));
    }
  }
}

// Runs until a signal stops it, in a child whose store answers late, and tells `started` when reads
// are in flight. Returns what the child exits with: 0 where all went as it should.
int RunUntilInterrupted(const Path& folder, int started) {
  EngineOptions options = Scored::Options(
      {.io = IoKind::kBuffered,
       .wrap_store = WithFaults({.delay_rate = 1, .delay = std::chrono::milliseconds(20)})},
      1);
  auto engine = Engine::Open(folder, options);
  if (!engine.has_value()) return 2;
  auto session = (*engine)->NewSession();
  if (!session.has_value()) return 3;
  RunHooks hooks{.cancel = &InterruptFlag()};
  hooks.on_progress = [started](const PromptProgress& at) {
    if (at.layer == 1 && write(started, "x", 1) != 1) _exit(4);
  };
  const std::vector<int32_t> ids = {1, 5, 9, 2, 30, 7, 11, 4};
  for (int i = 0; i < 10000; ++i) {
    const Status status = session
                              ->Score(
                                  ids, 0, [](uint32_t, std::span<const float>) {}, hooks)
                              .status();
    if (!status.ok()) return status.code() == Code::kCancelled ? 0 : 5;
  }
  return 6;
}

TEST_F(WaysOfReading, CtrlCWithReadsAtASlowDevice) {
  WriteStore();
  int started[2];
  ASSERT_EQ(pipe(started), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(RunUntilInterrupted(folder(), started[1]));
  close(started[1]);
  char byte = 0;
  EXPECT_EQ(read(started[0], &byte, 1), 1);
  EXPECT_EQ(kill(child, SIGINT), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  close(started[0]);
  ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The thread that opens a model and the one that runs it need not be the same.
TEST_F(WaysOfReading, LoadedByOneThreadAndRunByAnother) {
  WriteStore();
  {
    const Scored earlier(folder());
    ASSERT_OK(earlier.engine->SaveUseCounters());
  }
  for (const IoKind kind : kAllKinds) {
    EngineOptions options = Scored::Options({.io = kind});
    options.warm_start = true;
    std::unique_ptr<Engine> engine;
    std::thread([&] { engine = Engine::Open(folder(), options).value(); }).join();
    Scored scored(std::move(engine));
    EXPECT_TRUE(scored.SameBits(*reference_));
    EXPECT_EQ(scored.engine->tiers()[0].failed, 0U);
  }
}

// `picchio run` of the model in a process that `prepare` has restricted.
Json RunRestricted(const Path& folder, const std::function<void()>& prepare) {
  WriteAll(folder / "ids", "1 5 9 2 30 7");
  ChildProcess child({"run", folder.string(), "--ids", (folder / "ids").string(), "-n", "8",
                      "--temp", "0", "--io", "uring", "--json"},
                     prepare);
  EXPECT_EQ(child.Wait(), 0) << child.err();
  EXPECT_EQ(child.err(), "");
  return ParseJson(child.out(), "run").value();
}

TEST_F(WaysOfReading, WithoutIoUringThreadsRead) {
  WriteStore();
  if (!DirectWorks()) GTEST_SKIP() << "no unbuffered reads in the temporary folder";
  if (!UringRing::Open({}).has_value()) GTEST_SKIP() << "no io_uring here";
  const Json free = RunRestricted(folder(), [] {});
  const Json refused = RunRestricted(folder(), [] {
    if (!Refuse(SYS_io_uring_setup, EPERM)) _exit(102);
  });
  EXPECT_EQ(refused["ids"], free["ids"]);
  const auto choice = [](const Json& report) {
    return report["stats"]["storage"]["tiers"][0]["io"]["choice"].get<std::string>();
  };
  EXPECT_THAT(choice(free), testing::StartsWith("unbuffered reads by io_uring"));
  EXPECT_THAT(choice(refused), testing::StartsWith("unbuffered reads by 16 threads"));
  EXPECT_THAT(choice(refused), testing::HasSubstr("seccomp"));
}

TEST_F(WaysOfReading, WithoutLockedMemoryReadsGoOnUnregistered) {
  WriteStore();
  if (!DirectWorks()) GTEST_SKIP() << "no unbuffered reads in the temporary folder";
  if (!UringRing::Open({}).has_value()) GTEST_SKIP() << "no io_uring here";
  const auto limit = [](rlim_t bytes) {
    const rlimit low{.rlim_cur = bytes, .rlim_max = bytes};
    if (setrlimit(RLIMIT_MEMLOCK, &low) != 0 || !DropIpcLock()) _exit(102);
  };
  // Some kernels charge the ring itself too, and all processes of the user together: then there is
  // none, which is also said.
  const Json limited = RunRestricted(folder(), [&] { limit(64 * 1024); });
  const Json free = RunRestricted(folder(), [] {});
  EXPECT_EQ(limited["ids"], free["ids"]);
  const Json io = limited["stats"]["storage"]["tiers"][0]["io"];
  EXPECT_EQ(io["registered_bytes"], 0);
  EXPECT_THAT(io.dump(), testing::HasSubstr("RLIMIT_MEMLOCK"));
}

}  // namespace
}  // namespace picchio
