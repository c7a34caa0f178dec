#include "apps/work_queue.h"

#include <atomic>
#include <new>
#include <stdexcept>
#include <vector>

#include "base/start_thread.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TEST(RunOnThreads, DoesEveryItemOnce) {
  for (const int threads : {1, 3}) {
    std::vector<std::atomic<int>> done(500);
    ASSERT_OK(RunOnThreads(threads, done.size(), [&](size_t item, int thread) {
      EXPECT_GE(thread, 0);
      EXPECT_LT(thread, threads);
      ++done[item];
      return Status::Ok();
    }));
    for (const auto& count : done) EXPECT_EQ(count, 1);
  }
  EXPECT_OK(RunOnThreads(2, 0, [](size_t, int) { return Error(Code::kIoError, "never"); }));
}

TEST(RunOnThreads, MakesDoWithTheThreadsThereAre) {
  for (const int allowed : {0, 1}) {
    std::vector<std::atomic<int>> done(50);
    LimitThreadsForTest(allowed);
    EXPECT_OK(RunOnThreads(8, done.size(), [&](size_t item, int thread) {
      EXPECT_LE(thread, allowed);
      ++done[item];
      return Status::Ok();
    }));
    LimitThreadsForTest(-1);
    for (const auto& count : done) EXPECT_EQ(count, 1);
  }
}

// Whichever thread it is that has no memory, this one among them.
TEST(RunOnThreads, WhatIsThrownIsAFailure) {
  for (const int threads : {1, 3}) {
    std::atomic<int> at_work{0};
    const auto run = [&](auto thrown) {
      return RunOnThreads(threads, 100, [&](size_t item, int) -> Status {
        ++at_work;
        if (item >= 7) {
          --at_work;
          throw thrown;
        }
        --at_work;
        return Status::Ok();
      });
    };
    EXPECT_THAT(run(std::bad_alloc()), Fails(Code::kResourceExhausted, "not enough memory"));
    EXPECT_THAT(run(std::length_error("vector")), Fails(Code::kResourceExhausted, "vector"));
    EXPECT_EQ(at_work, 0);  // Nobody works on.
  }
  // Every thread at once.
  EXPECT_THAT(RunOnThreads(4, 4, [](size_t, int) -> Status { throw std::bad_alloc(); }),
              Fails(Code::kResourceExhausted, "memory"));
}

TEST(RunOnThreads, ReturnsTheLowestFailureAndStops) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<size_t> begun{0};
    EXPECT_THAT(RunOnThreads(4, 100'000,
                             [&](size_t item, int) -> Status {
                               ++begun;
                               if (item >= 10) return Error(Code::kCorrupt, "item {}.", item);
                               return Status::Ok();
                             }),
                Fails(Code::kCorrupt, "item 10."));
    EXPECT_LT(begun, 1000u);
  }
}

}  // namespace
}  // namespace picchio
