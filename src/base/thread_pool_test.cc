#include "base/thread_pool.h"

#include <limits>
#include <numeric>

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

TEST(ThreadPool, ManyShortLoops) {
  ThreadPool pool(3);
  std::atomic<int> sum{0};
  for (int i = 0; i < 5000; ++i) {
    pool.ParallelFor(4, 1, [&](size_t begin, size_t, int) { sum += static_cast<int>(begin); });
  }
  EXPECT_EQ(sum, 5000 * 6);
}

TEST(ThreadPool, EveryThreadComputesWithDenormals) {
  ThreadPool pool(2);
  std::vector<float> halves(64);
  volatile float smallest = std::numeric_limits<float>::denorm_min();
  pool.ParallelFor(halves.size(), 1,
                   [&](size_t begin, size_t, int) { halves[begin] = smallest * 2; });
  for (const float half : halves) EXPECT_GT(half, 0.0F);
}

TEST(UsableCpus, IsAtLeastOne) { EXPECT_GE(UsableCpus(), 1); }

}  // namespace
}  // namespace picchio
