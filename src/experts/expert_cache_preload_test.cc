#include <set>

#include "experts/expert_cache_test_support.h"

namespace picchio {
namespace {

TEST(ExpertCachePreloadTest, PreloadsTheMostUsedWhileItServes) {
  const auto cache = MakeCache(6, MemorySource(3));
  std::vector<CacheDirectory::Uses> uses;
  for (int i = 0; i < 10; ++i) uses.push_back({{1, i}, 100.0 - i});
  cache->Preload(uses);
  EXPECT_EQ(cache->preload_total(), 6u);
  for (int i = 0; i < 6; ++i) FetchAll(*cache, 0, {});
  EXPECT_EQ(cache->preload_done(), 6u);
  EXPECT_EQ(cache->stats().preloaded, 6u);
  FetchAll(*cache, 1, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(cache->stats().hits, 6u);
  // Uses of before and of now count together.
  const auto all = cache->UsesOfAll();
  ASSERT_EQ(all.size(), 10u);
  EXPECT_EQ(all[0].key, (ExpertKey{1, 0}));
  EXPECT_NEAR(all[0].uses, 101, 0.1);
}

TEST(ExpertCachePreloadTest, ADemandTakesSlotsBeforeAPreload) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    FaultPlan plan = Disorder(seed);
    plan.fail_rate = seed % 2 == 0 ? 0 : 0.1;
    const auto cache = MakeCache(9, Faulty(plan, 3));
    std::vector<CacheDirectory::Uses> uses;
    for (int i = 0; i < kNumExperts; ++i) uses.push_back({{2, i}, 50.0 - i});
    cache->Preload(uses);
    for (int step = 0; step < 60; ++step) {
      const int layer = static_cast<int>(random() % kNumLayers);
      const std::vector<int32_t> experts = RandomList(random, 1 + random() % 12);
      ExpertCache::Fetch fetch = cache->Begin(layer, experts);
      for (size_t seen = 0; seen < experts.size();) {
        const auto ready = fetch.Next();
        if (!ready.has_value()) {
          EXPECT_GT(plan.fail_rate, 0);
          break;
        }
        ASSERT_FALSE(ready->empty());
        for (const ExpertCache::Ready& r : *ready) {
          ASSERT_TRUE(IsRecordOf(r.record, {layer, experts[static_cast<size_t>(r.index)]}));
        }
        seen += ready->size();
      }
    }
    EXPECT_EQ(cache->preload_done(), cache->preload_total());
  }
}

}  // namespace
}  // namespace picchio
