// Whatever way the bytes come, the logits are the same. What goes wrong on the way is
// reading_faults_test.cc's.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "apps/child_process_test_support.h"
#include "apps/interrupt.h"
#include "apps/run/ways_of_reading_test_support.h"
#include "base/json.h"
#include "io/restricted_process_test_support.h"
#include "io/uring_ring.h"
#include "support/test_support.h"

namespace picchio {
namespace {

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

// In step with the reads or after them, ahead of the next layer or not.
TEST_F(WaysOfReading, OverlapAndPrefetchChangeNoBit) {
  WriteStore();
  for (const bool async_moe : {true, false}) {
    for (const Prefetch prefetch : {Prefetch::kOff, Prefetch::kAuto, Prefetch::kOn}) {
      for (const uint32_t span : {1U, 8U, 12U}) {
        EngineOptions options = SmallCache({}, {async_moe, prefetch});
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
