#include <set>

#include "experts/expert_cache_test_support.h"

namespace picchio {
namespace {

using testing::ElementsAre;

TEST(ExpertCachePrefetchTest, APrefetchedRecordIsNotReadAgain) {
  const auto cache = MakePrefetchCache(8, 2, MemorySource());
  EXPECT_EQ(cache->num_prefetch_slots(), 2u);
  cache->Prefetch(1, std::vector<int32_t>{3, 4, 5});
  EXPECT_EQ(cache->stats().prefetched, 2u) << "there is room for two";
  cache->Prefetch(1, {});  // Takes what has landed.
  FetchAll(*cache, 1, {3, 9});
  EXPECT_EQ(cache->stats().prefetch_used, 1u);
  EXPECT_EQ(cache->stats().misses, 2u);
  EXPECT_EQ(cache->stats().reads, 3u);
  FetchAll(*cache, 1, {3, 9});
  EXPECT_EQ(cache->stats().hits, 2u);
  // What is held, or on its way, is not prefetched.
  cache->Prefetch(1, std::vector<int32_t>{3, 9, 4});
  EXPECT_EQ(cache->stats().prefetched, 2u);
  // The unused one goes for the next.
  cache->Prefetch(2, std::vector<int32_t>{0, 1});
  EXPECT_EQ(cache->stats().prefetched, 4u);
  EXPECT_EQ(cache->stats().prefetch_wasted_bytes, cache->layout().record_bytes);
  FetchAll(*cache, 2, {0, 1});
  EXPECT_EQ(cache->stats().prefetch_used, 3u);
}

TEST(ExpertCachePrefetchTest, AGuessThatProvesWrongIsCancelled) {
  const auto cache = MakePrefetchCache(8, 2, MemorySource());
  cache->Prefetch(1, std::vector<int32_t>{3, 4});
  FetchAll(*cache, 1, {3});
  cache->Prefetch(1, {});
  EXPECT_EQ(cache->stats().reads, 1u) << "the other one was not on its way yet";
  // It may be guessed again, and its slot is free for others.
  cache->Prefetch(1, std::vector<int32_t>{4, 5});
  EXPECT_EQ(cache->stats().prefetched, 4u);
  FetchAll(*cache, 1, {4, 5});
  EXPECT_EQ(cache->stats().prefetch_used, 3u);
  EXPECT_EQ(cache->stats().prefetch_wasted_bytes, 0u);
}

TEST(ExpertCachePrefetchTest, PrefetchIsOffWhereSlotsAreFew) {
  for (size_t num_slots = 2; num_slots <= 8; ++num_slots) {
    const auto cache = MakePrefetchCache(num_slots, 3, MemorySource());
    EXPECT_EQ(cache->num_prefetch_slots(), num_slots >= 2 * 2 + 3 ? 3u : 0u);
    cache->Prefetch(0, std::vector<int32_t>{1});
    FetchAll(*cache, 0, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  }
}

TEST(ExpertCachePrefetchTest, AFailedPrefetchIsReadAgainOnDemand) {
  for (const Code code : {Code::kIoError, Code::kCancelled, Code::kUnavailable}) {
    const auto cache = MakePrefetchCache(8, 2, Faulty({.fail_reads = {{0, code}}}));
    cache->Prefetch(1, std::vector<int32_t>{3});
    EXPECT_THAT(FetchAll(*cache, 1, {3}), ElementsAre(0));
    EXPECT_EQ(cache->stats().failed_reads, 1u);
    EXPECT_EQ(cache->stats().reads, 1u);
  }
}

TEST(ExpertCachePrefetchTest, ADemandDoesNotWaitForPrefetchesThatFillTheSource) {
  const auto cache = MakePrefetchCache(12, 4, Faulty(Disorder(5), 2));
  for (int round = 0; round < 50; ++round) {
    cache->Prefetch(round % kNumLayers, std::vector<int32_t>{0, 1, 2, 3});
    EXPECT_EQ(FetchAll(*cache, (round + 1) % kNumLayers, {5, 6, 7, 8}).size(), 4u);
  }
}

// Guesses that have not begun give their room at the source up before the list's hits are computed.
TEST(ExpertCachePrefetchTest, GuessesThatFillTheSourceDoNotHoldADemandUp) {
  const auto cache = MakePrefetchCache(8, 2, MemorySource(2));
  FetchAll(*cache, 0, {1});
  cache->Prefetch(1, std::vector<int32_t>{3, 4});
  EXPECT_EQ(cache->reads_in_flight(), 2u);
  ExpertCache::Fetch fetch = cache->Begin(0, std::vector<int32_t>{1, 5, 6});
  EXPECT_TRUE(fetch.all_submitted());
  const auto hits = fetch.Next();
  ASSERT_OK(hits);
  EXPECT_EQ(hits->size(), 1u);
}

// Whatever is prefetched, when, and in whatever order it comes: every record is right, and hits are
// those of a cache that prefetches nothing and has so many slots fewer.
TEST(ExpertCachePrefetchTest, PrefetchChangesNoRecordAndNoHit) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const size_t max_in_flight = 1 + random() % 6;
    const auto with = MakePrefetchCache(10, 3, Faulty(Disorder(seed), max_in_flight));
    const auto without = MakeCache(7);
    for (int step = 0; step < 150; ++step) {
      const int layer = static_cast<int>(random() % kNumLayers);
      const std::vector<int32_t> ahead = RandomList(random, random() % 6);
      const std::vector<int32_t> experts = RandomList(random, 1 + random() % 10);
      if (random() % 2 == 0) with->Prefetch(layer, ahead);
      {
        std::set<int> seen;
        ExpertCache::Fetch fetch = with->Begin(layer, experts);
        for (;;) {
          const auto ready = fetch.Next();
          ASSERT_OK(ready);
          if (ready->empty()) break;
          if (random() % 3 == 0) with->Prefetch((layer + 1) % kNumLayers, ahead);
          for (const ExpertCache::Ready& r : *ready) {
            ASSERT_TRUE(seen.insert(r.index).second);
            ASSERT_TRUE(IsRecordOf(r.record, {layer, experts[static_cast<size_t>(r.index)]}));
          }
        }
        ASSERT_EQ(seen.size(), experts.size());
      }
      FetchAll(*without, layer, experts);
      ASSERT_EQ(with->stats().hits, without->stats().hits);
    }
    EXPECT_GT(with->stats().prefetch_used, 0u);
  }
}

}  // namespace
}  // namespace picchio
