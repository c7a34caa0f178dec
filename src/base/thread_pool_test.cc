#include "base/thread_pool.h"

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <new>
#include <numeric>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/start_thread.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TEST(ThreadPool, CoversEveryIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (const size_t n : {0u, 1u, 7u, 1000u}) {
      for (const size_t grain : {1u, 3u, 5000u}) {
        std::vector<int> hits(n, 0);
        pool.ParallelFor(n, grain, [&](size_t begin, size_t end, int thread) {
          EXPECT_LE(end - begin, grain);
          EXPECT_GE(thread, 0);
          EXPECT_LT(thread, threads);
          for (size_t i = begin; i < end; ++i) ++hits[i];
        });
        EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), size_t{0}), n);
        for (const int hit : hits) ASSERT_EQ(hit, 1);
      }
    }
  }
}

TEST(ThreadPool, MakesDoWithTheThreadsThereAre) {
  for (const int allowed : {0, 2}) {
    LimitThreadsForTest(allowed);
    ThreadPool pool(8);
    LimitThreadsForTest(-1);
    EXPECT_EQ(pool.num_threads(), allowed + 1);
    std::vector<std::atomic<int>> hits(100);
    pool.ParallelFor(hits.size(), 1, [&](size_t begin, size_t, int thread) {
      EXPECT_LE(thread, allowed);
      ++hits[begin];
    });
    for (const auto& hit : hits) EXPECT_EQ(hit, 1);
  }
}

TEST(ThreadPool, ManyShortLoops) {
  ThreadPool pool(3);
  std::atomic<int> sum{0};
  for (int i = 0; i < 5000; ++i) {
    pool.ParallelFor(4, 1, [&](size_t begin, size_t, int) { sum += static_cast<int>(begin); });
  }
  EXPECT_EQ(sum, 5000 * 6);
}

// Waits of the process that made a thread give up its CPU.
long VoluntarySwitches() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nvcsw;
}

// Of two pieces one is the caller's: the other fourteen workers sleep on.
TEST(ThreadPool, WakesNoMoreThreadsThanThereArePieces) {
  constexpr int kLoops = 500;
  ThreadPool pool(16);
  pool.ParallelFor(16, 1, [](size_t, size_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Until all are asleep.
  const long before = VoluntarySwitches();
  for (int i = 0; i < kLoops; ++i) pool.ParallelFor(2, 1, [](size_t, size_t, int) {});
  EXPECT_LT(VoluntarySwitches() - before, 7 * kLoops);
}

// Sets FTZ and DAZ, which threads inherit, for as long as it lives.
class WithoutDenormals {
 public:
#if defined(__x86_64__)
  WithoutDenormals() { _mm_setcsr(saved_ | 0x8040); }
  ~WithoutDenormals() { _mm_setcsr(saved_); }

 private:
  const unsigned saved_ = _mm_getcsr();
#elif defined(__aarch64__)
  WithoutDenormals() { Set(saved_ | uint64_t{1} << 24); }
  ~WithoutDenormals() { Set(saved_); }

 private:
  static uint64_t Get() {
    uint64_t fpcr;
    asm volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
  }
  static void Set(uint64_t fpcr) { asm volatile("msr fpcr, %0" ::"r"(fpcr)); }

  const uint64_t saved_ = Get();
#endif
};

struct Denormals {
  float taken = 0;  // A denormal times two.
  float made = 0;   // The least normal by two.

  void Compute() {
    volatile float smallest = std::numeric_limits<float>::denorm_min();
    volatile float normal = std::numeric_limits<float>::min();
    taken = smallest * 2;
    made = normal / 2;
  }
};

TEST(ThreadPool, EveryThreadComputesWithDenormals) {
  const WithoutDenormals without;
  Denormals flushed;
  flushed.Compute();
  ASSERT_EQ(flushed.taken, 0.0F);
  ASSERT_EQ(flushed.made, 0.0F);

  ThreadPool pool(2);
  std::atomic<int> started{0};
  std::vector<Denormals> of_thread(2);
  pool.ParallelFor(2, 1, [&](size_t, size_t, int thread) {
    of_thread[static_cast<size_t>(thread)].Compute();
    // Each of the two takes one piece.
    ++started;
    while (started < 2) std::this_thread::yield();
  });
  for (const Denormals& kept : of_thread) {
    EXPECT_GT(kept.taken, 0.0F);
    EXPECT_GT(kept.made, 0.0F);
  }
}

TEST(UsableCpus, IsAtLeastOne) { EXPECT_GE(UsableCpus(), 1); }

// On whichever thread: it is the caller's, once everybody has stopped, and the next loop runs.
TEST(ThreadPool, WhatAPieceThrowsIsThrownToTheCaller) {
  for (const int threads : {1, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 100; ++round) {
      std::atomic<int> at_work{0};
      EXPECT_THROW(pool.ParallelFor(1000, 1,
                                    [&](size_t begin, size_t, int) {
                                      ++at_work;
                                      if (begin % 7 == 6) {
                                        --at_work;
                                        throw std::bad_alloc();
                                      }
                                      --at_work;
                                    }),
                   std::bad_alloc);
      EXPECT_EQ(at_work, 0);
      std::atomic<size_t> done{0};
      pool.ParallelFor(50, 3, [&](size_t begin, size_t end, int) { done += end - begin; });
      EXPECT_EQ(done, 50u);
    }
  }
}

}  // namespace
}  // namespace picchio
