#include "experts/expert_cache.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "experts/faulty_expert_source.h"
#include "experts/memory_expert_source.h"
#include "experts/records_test_support.h"
#include "experts/tiered_expert_source.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr int kNumLayers = 3;
constexpr int kNumExperts = 16;

std::unique_ptr<ExpertSource> MemorySource(size_t max_in_flight = 64) {
  return TestMemorySource(TestLayout(), 0, kNumLayers, kNumExperts, max_in_flight);
}

std::unique_ptr<ExpertCache> MakeCache(size_t num_slots,
                                       std::unique_ptr<ExpertSource> source = MemorySource(),
                                       CachePolicy policy = kDefaultCachePolicy) {
  // Two slots to a chunk.
  return ExpertCache::Create(std::move(source),
                             {.num_slots = num_slots, .chunk_bytes = 8192, .policy = policy})
      .value();
}

std::unique_ptr<FaultyExpertSource> Faulty(const FaultPlan& plan, size_t max_in_flight = 64) {
  return std::make_unique<FaultyExpertSource>(MemorySource(max_in_flight), plan);
}

// Passes everything on and counts the chunks that are attached.
class CountingSource final : public ExpertSource {
 public:
  explicit CountingSource(std::unique_ptr<ExpertSource> source) : source_(std::move(source)) {}
  ~CountingSource() override { EXPECT_EQ(attached, 0); }

  const std::string& name() const override { return source_->name(); }
  const ExpertRecordLayout& layout() const override { return source_->layout(); }
  size_t max_in_flight() const override { return source_->max_in_flight(); }
  Status Attach(const MemoryChunk& chunk) override {
    ++attached;
    return source_->Attach(chunk);
  }
  void Detach(const MemoryChunk& chunk) override {
    --attached;
    source_->Detach(chunk);
  }
  size_t Submit(std::span<const ReadRequest> requests) override {
    return source_->Submit(requests);
  }
  size_t Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) override {
    return source_->Reap(out, timeout);
  }
  void Cancel(uint64_t tag) override { source_->Cancel(tag); }
  void Promote(uint64_t tag) override { source_->Promote(tag); }
  void Drain() override { source_->Drain(); }

  int attached = 0;

 private:
  const std::unique_ptr<ExpertSource> source_;
};

// Whether `record` is that expert's.
bool IsRecordOf(std::span<const std::byte> record, ExpertKey key) {
  const std::vector<std::byte> expected = TestRecord(key, TestLayout());
  return std::equal(record.begin(), record.end(), expected.begin(), expected.end());
}

// Takes all of the list; checks each record's bytes; returns the indexes in the order they came.
std::vector<int> FetchAll(ExpertCache& cache, int layer, const std::vector<int32_t>& experts) {
  std::vector<int> order;
  ExpertCache::Fetch fetch = cache.Begin(layer, experts);
  for (;;) {
    const auto ready = fetch.Next();
    EXPECT_OK(ready);
    if (!ready.has_value() || ready->empty()) return order;
    for (const ExpertCache::Ready& r : *ready) {
      EXPECT_TRUE(IsRecordOf(r.record, {layer, experts[static_cast<size_t>(r.index)]}));
      order.push_back(r.index);
    }
  }
}

TEST(ExpertCacheTest, DeliversEveryExpertOfTheListOnce) {
  const auto cache = MakeCache(8);
  EXPECT_THAT(FetchAll(*cache, 1, {3, 0, 7}), UnorderedElementsAre(0, 1, 2));
  EXPECT_EQ(cache->stats().misses, 3u);
  EXPECT_EQ(cache->stats().reads, 3u);
  EXPECT_EQ(cache->stats().bytes, 3 * cache->layout().record_bytes);
}

TEST(ExpertCacheTest, AnEmptyListIsDoneAtOnce) {
  const auto cache = MakeCache(2);
  EXPECT_TRUE(FetchAll(*cache, 0, {}).empty());
}

TEST(ExpertCacheTest, HitsComeFirstAndNeedNoRead) {
  const auto cache = MakeCache(8);
  FetchAll(*cache, 0, {1, 2});
  FetchAll(*cache, 0, {2, 1});
  EXPECT_EQ(cache->stats().hits, 2u);
  EXPECT_EQ(cache->stats().reads, 2u);
}

TEST(ExpertCacheTest, ListsLongerThanTheCacheComeInWaves) {
  for (size_t num_slots = 2; num_slots <= 5; ++num_slots) {
    const auto cache = MakeCache(num_slots);
    std::vector<int> order = FetchAll(*cache, 0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    std::sort(order.begin(), order.end());
    EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    EXPECT_GT(cache->stats().waves, 0u);
  }
}

TEST(ExpertCacheTest, ATwiceNamedExpertComesTwiceAndIsReadOnce) {
  const auto cache = MakeCache(2);
  EXPECT_THAT(FetchAll(*cache, 0, {4, 4, 5}), UnorderedElementsAre(0, 1, 2));
  EXPECT_EQ(cache->stats().reads, 2u);
}

TEST(ExpertCacheTest, AMissingExpertIsAnErrorThatNamesIt) {
  const auto cache = MakeCache(4);
  {
    ExpertCache::Fetch fetch = cache->Begin(2, std::vector<int32_t>{99, 1});
    EXPECT_THAT(fetch.Next(), Fails(Code::kNotFound, "layer 2 expert 99"));
    EXPECT_THAT(fetch.Next(), Fails(Code::kNotFound, "layer 2 expert 99"));
  }
  EXPECT_THAT(FetchAll(*cache, 2, {1, 2, 3, 4}), UnorderedElementsAre(0, 1, 2, 3));
}

TEST(ExpertCacheTest, RecordsStayPinnedUntilTheNextCall) {
  const auto cache = MakeCache(2);
  const std::vector<int32_t> experts = {0, 1, 2, 3, 4, 5};
  ExpertCache::Fetch fetch = cache->Begin(0, experts);
  for (size_t seen = 0; seen < experts.size();) {
    const auto ready = fetch.Next();
    ASSERT_OK(ready);
    ASSERT_FALSE(ready->empty());
    for (const ExpertCache::Ready& r : *ready) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(r.record.data()) % 4096, 0u);
      EXPECT_TRUE(IsRecordOf(r.record, {0, experts[static_cast<size_t>(r.index)]}));
    }
    seen += ready->size();
  }
}

TEST(ExpertCacheTest, AFetchMoves) {
  const auto cache = MakeCache(2);
  ExpertCache::Fetch first = cache->Begin(0, std::vector<int32_t>{1});
  ExpertCache::Fetch second = std::move(first);
  first = std::move(second);
  const auto ready = first.Next();
  ASSERT_OK(ready);
  EXPECT_EQ(ready->size(), 1u);
}

TEST(ExpertCacheTest, AFetchThatEndsEarlyLeavesItsReadsToTheNext) {
  for (const size_t max_in_flight : {1u, 2u, 64u}) {
    const auto cache = MakeCache(6, MemorySource(max_in_flight));
    { const ExpertCache::Fetch fetch = cache->Begin(1, std::vector<int32_t>{0, 1, 2, 3}); }
    EXPECT_THAT(FetchAll(*cache, 1, {3, 2, 1, 0}), UnorderedElementsAre(0, 1, 2, 3));
    EXPECT_EQ(cache->stats().reads, 4u) << "what was on its way was read again";
    EXPECT_EQ(cache->stats().hits, std::min<size_t>(max_in_flight, 4));
  }
}

TEST(ExpertCacheTest, ACacheFullOfForeignReadsWaitsForThem) {
  const auto cache = MakeCache(2, Faulty({.delay_rate = 1, .delay = std::chrono::milliseconds(2)}));
  { const ExpertCache::Fetch fetch = cache->Begin(0, std::vector<int32_t>{0, 1}); }
  EXPECT_THAT(FetchAll(*cache, 1, {5, 6, 7}), UnorderedElementsAre(0, 1, 2));
  EXPECT_EQ(cache->stats().reads, 5u);
  EXPECT_GT(cache->stats().wait.count(), 0);
}

TEST(ExpertCacheTest, AFailureThatNobodyWaitsForIsForgotten) {
  const auto cache = MakeCache(4, Faulty({.fail_reads = {{0, Code::kIoError}}}));
  { const ExpertCache::Fetch fetch = cache->Begin(0, std::vector<int32_t>{3}); }
  EXPECT_THAT(FetchAll(*cache, 0, {4}), ElementsAre(0));
  EXPECT_EQ(cache->stats().failed_reads, 1u);
  EXPECT_THAT(FetchAll(*cache, 0, {3}), ElementsAre(0));
}

TEST(ExpertCacheTest, CountsFallbacks) {
  std::vector<std::unique_ptr<ExpertSource>> tiers;
  tiers.push_back(TestMemorySource(TestLayout(), 0, 1, kNumExperts));
  tiers.push_back(MemorySource());
  const auto cache = MakeCache(4, TieredExpertSource::Create(std::move(tiers), nullptr).value());
  FetchAll(*cache, 0, {1, 2});
  FetchAll(*cache, 1, {1, 2, 3});
  EXPECT_EQ(cache->stats().fallbacks, 3u);
  EXPECT_EQ(cache->stats().reads, 5u);
}

// Every read in turn fails, for lists of every length in caches of every size around it: the error
// names an expert of the list that was not handed out, what was handed out is right, and the cache
// serves what comes after.
TEST(ExpertCacheTest, AnyReadMayFailAndTheCacheGoesOn) {
  const std::vector<int32_t> all = {9, 3, 14, 0, 7, 12};
  for (size_t length = 1; length <= all.size(); ++length) {
    const std::vector<int32_t> experts(all.begin(), all.begin() + static_cast<ptrdiff_t>(length));
    for (size_t num_slots = 2; num_slots <= length + 1; ++num_slots) {
      for (size_t position = 0; position < length; ++position) {
        for (const bool shuffle : {false, true}) {
          const auto cache =
              MakeCache(num_slots, Faulty({.seed = position,
                                           .fail_reads = {{position, Code::kCorrupt}},
                                           .shuffle = shuffle}));
          std::set<int32_t> missing(experts.begin(), experts.end());
          {
            ExpertCache::Fetch fetch = cache->Begin(1, experts);
            for (;;) {
              const auto ready = fetch.Next();
              if (!ready.has_value()) {
                EXPECT_EQ(ready.error().code(), Code::kCorrupt);
                EXPECT_TRUE(std::ranges::any_of(missing, [&](int32_t expert) {
                  return ready.error().message().starts_with(ToString({1, expert}) + ":");
                })) << ready.error().message();
                break;
              }
              ASSERT_FALSE(ready->empty()) << "the failure was lost";
              for (const ExpertCache::Ready& r : *ready) {
                EXPECT_EQ(missing.erase(experts[static_cast<size_t>(r.index)]), 1u);
                EXPECT_TRUE(IsRecordOf(r.record, {1, experts[static_cast<size_t>(r.index)]}));
              }
            }
          }
          EXPECT_EQ(FetchAll(*cache, 1, experts).size(), length);
          EXPECT_EQ(FetchAll(*cache, 2, experts).size(), length);
          EXPECT_EQ(cache->stats().failed_reads, 1u);
        }
      }
    }
  }
}

// Which experts a list would find, by the plainest of models: last use last.
class LruModel {
 public:
  explicit LruModel(size_t capacity) : capacity_(capacity) {}

  // Uses the experts of a list no longer than the capacity; returns how many were there.
  size_t Use(int layer, const std::vector<int32_t>& experts) {
    size_t hits = 0;
    for (const int32_t expert : experts) hits += std::erase(keys_, ExpertKey{layer, expert});
    for (const int32_t expert : experts) keys_.push_back({layer, expert});
    if (keys_.size() > capacity_) {
      keys_.erase(keys_.begin(), keys_.end() - static_cast<ptrdiff_t>(capacity_));
    }
    return hits;
  }

 private:
  const size_t capacity_;
  std::vector<ExpertKey> keys_;
};

std::vector<int32_t> RandomList(std::mt19937& random, size_t length) {
  std::vector<int32_t> experts(kNumExperts);
  for (int i = 0; i < kNumExperts; ++i) experts[static_cast<size_t>(i)] = i;
  std::shuffle(experts.begin(), experts.end(), random);
  experts.resize(length);
  return experts;
}

FaultPlan Disorder(uint64_t seed) {
  FaultPlan plan;
  plan.seed = seed;
  plan.delay_rate = 0.05;
  plan.delay = std::chrono::microseconds(20);
  plan.refuse_rate = 0.3;
  plan.shuffle = true;
  return plan;
}

// Lists that fit: hits are exactly those of the model, in whatever order reads complete.
TEST(ExpertCacheTest, EvictsInOrderOfLastUse) {
  std::mt19937 random(21);
  for (const size_t num_slots : {2u, 3u, 8u, 20u, 40u}) {
    for (const bool disorder : {false, true}) {
      const auto cache = MakeCache(
          num_slots,
          disorder ? std::unique_ptr<ExpertSource>(Faulty(Disorder(num_slots), 5)) : MemorySource(),
          CachePolicy::kLru);
      LruModel model(num_slots);
      uint64_t hits = 0;
      for (int step = 0; step < 300; ++step) {
        const int layer = static_cast<int>(random() % kNumLayers);
        const std::vector<int32_t> experts =
            RandomList(random, 1 + random() % std::min<size_t>(num_slots, 8));
        hits += model.Use(layer, experts);
        ASSERT_EQ(FetchAll(*cache, layer, experts).size(), experts.size());
        ASSERT_EQ(cache->stats().hits, hits) << "step " << step;
      }
      EXPECT_EQ(cache->stats().waves, 0u);
      EXPECT_EQ(cache->stats().reads, cache->stats().misses);
    }
  }
}

// Anything at all: lists of every length, fetches that end early, failures, disorder. Every list
// comes whole and right or ends with an error; counters add up.
TEST(ExpertCacheTest, RandomUseNeverHandsOutAnythingWrong) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const size_t num_slots = 2 + random() % 12;
    FaultPlan plan = Disorder(seed);
    plan.fail_rate = seed % 2 == 0 ? 0 : 0.05;
    const auto cache = MakeCache(num_slots, Faulty(plan, 1 + random() % 9),
                                 kCachePolicies[seed % kCachePolicies.size()]);
    uint64_t asked = 0;
    uint64_t failures = 0;
    for (int step = 0; step < 200; ++step) {
      const int layer = static_cast<int>(random() % kNumLayers);
      const std::vector<int32_t> experts = RandomList(random, random() % (kNumExperts + 1));
      asked += experts.size();
      std::set<int> seen;
      ExpertCache::Fetch fetch = cache->Begin(layer, experts);
      for (;;) {
        if (random() % 40 == 0) break;
        const auto ready = fetch.Next();
        if (!ready.has_value()) {
          ++failures;
          break;
        }
        if (ready->empty()) {
          ASSERT_EQ(seen.size(), experts.size());
          break;
        }
        for (const ExpertCache::Ready& r : *ready) {
          ASSERT_TRUE(seen.insert(r.index).second) << "handed out twice";
          ASSERT_TRUE(IsRecordOf(r.record, {layer, experts[static_cast<size_t>(r.index)]}));
        }
      }
    }
    const CacheStats& stats = cache->stats();
    EXPECT_EQ(stats.hits + stats.misses, asked);
    EXPECT_LE(stats.reads + stats.failed_reads, stats.misses);
    EXPECT_GE(stats.failed_reads, failures);
    EXPECT_EQ(stats.bytes, stats.reads * cache->layout().record_bytes);
    EXPECT_EQ(plan.fail_rate > 0, failures > 0);
  }
}

TEST(ExpertCacheTest, DestructionWaitsForReadsInFlight) {
  for (int i = 0; i < 20; ++i) {
    const auto cache = MakeCache(8, Faulty(Disorder(static_cast<uint64_t>(i))));
    const ExpertCache::Fetch fetch = cache->Begin(0, std::vector<int32_t>{0, 1, 2, 3, 4, 5});
  }
}

// A cache of 4096-byte slots, two to a chunk, some of them for prefetch, for a model of 2 experts a
// token.
std::unique_ptr<ExpertCache> MakePrefetchCache(size_t num_slots, size_t prefetch_slots,
                                               std::unique_ptr<ExpertSource> source,
                                               CachePolicy policy = kDefaultCachePolicy) {
  return ExpertCache::Create(std::move(source), {.num_slots = num_slots,
                                                 .chunk_bytes = 8192,
                                                 .policy = policy,
                                                 .prefetch_slots = prefetch_slots,
                                                 .experts_per_token = 2})
      .value();
}

TEST(ExpertCacheTest, APrefetchedRecordIsNotReadAgain) {
  const auto cache = MakePrefetchCache(8, 2, MemorySource());
  EXPECT_EQ(cache->num_prefetch_slots(), 2u);
  cache->Prefetch(1, std::vector<int32_t>{3, 4, 5});
  EXPECT_EQ(cache->stats().prefetched, 2u) << "there is room for two";
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

TEST(ExpertCacheTest, PrefetchIsOffWhereSlotsAreFew) {
  for (size_t num_slots = 2; num_slots <= 8; ++num_slots) {
    const auto cache = MakePrefetchCache(num_slots, 3, MemorySource());
    EXPECT_EQ(cache->num_prefetch_slots(), num_slots >= 2 * 2 + 3 ? 3u : 0u);
    cache->Prefetch(0, std::vector<int32_t>{1});
    FetchAll(*cache, 0, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  }
}

TEST(ExpertCacheTest, AFailedPrefetchIsReadAgainOnDemand) {
  for (const Code code : {Code::kIoError, Code::kCancelled, Code::kUnavailable}) {
    const auto cache = MakePrefetchCache(8, 2, Faulty({.fail_reads = {{0, code}}}));
    cache->Prefetch(1, std::vector<int32_t>{3});
    EXPECT_THAT(FetchAll(*cache, 1, {3}), ElementsAre(0));
    EXPECT_EQ(cache->stats().failed_reads, 1u);
    EXPECT_EQ(cache->stats().reads, 1u);
  }
}

TEST(ExpertCacheTest, ADemandDoesNotWaitForPrefetchesThatFillTheSource) {
  const auto cache = MakePrefetchCache(12, 4, Faulty(Disorder(5), 2));
  for (int round = 0; round < 50; ++round) {
    cache->Prefetch(round % kNumLayers, std::vector<int32_t>{0, 1, 2, 3});
    EXPECT_EQ(FetchAll(*cache, (round + 1) % kNumLayers, {5, 6, 7, 8}).size(), 4u);
  }
}

// Whatever is prefetched, when, and in whatever order it comes: every record is right, and hits are
// those of a cache that prefetches nothing and has so many slots fewer.
TEST(ExpertCacheTest, PrefetchChangesNoRecordAndNoHit) {
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

TEST(ExpertCacheTest, PreloadsTheMostUsedWhileItServes) {
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

TEST(ExpertCacheTest, ADemandTakesSlotsBeforeAPreload) {
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

// Chunks go between fetches, with and without parts and prefetch slots; what was worth most stays
// without another read, every record is right.
TEST(ExpertCacheTest, ShrinksWhileItIsUsed) {
  for (const bool prefetch : {false, true}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      std::mt19937 random(static_cast<uint32_t>(seed));
      auto source = std::make_unique<CountingSource>(Faulty(Disorder(seed), 4));
      const CountingSource& counts = *source;
      // The policy whose favourite is known here: what was used last.
      const auto cache =
          MakePrefetchCache(30, prefetch ? 4 : 0, std::move(source), CachePolicy::kLru);
      EXPECT_EQ(counts.attached, 15);
      for (const size_t wanted : {30u, 29u, 17u, 16u, 7u, 0u}) {
        for (int step = 0; step < 40; ++step) {
          const int layer = static_cast<int>(random() % kNumLayers);
          if (step % 3 == 0) cache->Prefetch(layer, RandomList(random, 3));
          const std::vector<int32_t> experts = RandomList(random, 1 + random() % 6);
          ASSERT_EQ(FetchAll(*cache, layer, experts).size(), experts.size());
        }
        FetchAll(*cache, 0, {1});
        const uint64_t hits = cache->stats().hits;
        if (seed % 2 == 0) {
          const auto early = cache->Begin(1, std::vector<int32_t>{0, 1, 2});
        }
        const size_t left = cache->ShrinkTo(wanted);
        EXPECT_EQ(left, std::max<size_t>(wanted / 2 * 2, 2));
        EXPECT_EQ(cache->num_slots(), left);
        EXPECT_EQ(counts.attached, static_cast<int>(left / 2));
        EXPECT_EQ(cache->num_prefetch_slots(), prefetch && left >= 8 ? 4u : 0u);
        if (left >= 16 && seed % 2 == 1) {
          FetchAll(*cache, 0, {1});
          EXPECT_EQ(cache->stats().hits, hits + 1) << "what was used last is gone";
        }
      }
    }
  }
}

TEST(ExpertCacheTest, ShrinkingLeavesEachLayerASlot) {
  const auto cache =
      ExpertCache::Create(MemorySource(),
                          {.num_slots = 12, .chunk_bytes = 8192, .slots_per_layer = 4})
          .value();
  for (int layer = 0; layer < kNumLayers; ++layer) FetchAll(*cache, layer, {0, 1, 2, 3});
  EXPECT_EQ(cache->ShrinkTo(7), 6u);
  for (int layer = 0; layer < kNumLayers; ++layer) FetchAll(*cache, layer, {3, 2, 1, 0, 5});
  EXPECT_EQ(cache->ShrinkTo(0), 4u);
  for (int layer = 0; layer < kNumLayers; ++layer) FetchAll(*cache, layer, {3, 2, 1});
}

// A source that breaks its promises, or has none of the expected abilities.
class OddSource final : public ExpertSource {
 public:
  const std::string& name() const override { return name_; }
  const ExpertRecordLayout& layout() const override { return layout_; }
  bool CanFill(MemorySpace /*space*/) const override { return fills_host; }
  size_t max_in_flight() const override { return 1; }
  Status Attach(const MemoryChunk& chunk) override {
    if (chunk.chunk_idx == 1) return Error(Code::kResourceExhausted, "no room to register it");
    ++*attached;
    return Status::Ok();
  }
  void Detach(const MemoryChunk& /*chunk*/) override { --*attached; }
  size_t Submit(std::span<const ReadRequest> /*requests*/) override { return 0; }
  size_t Reap(std::span<Completion> /*out*/, std::chrono::nanoseconds /*timeout*/) override {
    return 0;
  }
  void Cancel(uint64_t /*tag*/) override {}
  void Drain() override {}

  bool fills_host = true;
  int* attached = nullptr;

 private:
  const std::string name_ = "odd";
  const ExpertRecordLayout layout_ = TestLayout();
};

TEST(ExpertCacheTest, ASourceThatTakesNothingIsAnErrorNotAHang) {
  int attached = 0;
  auto source = std::make_unique<OddSource>();
  source->attached = &attached;
  {
    const auto cache = MakeCache(2, std::move(source));
    EXPECT_EQ(attached, 1);
    ExpertCache::Fetch fetch = cache->Begin(0, std::vector<int32_t>{1});
    EXPECT_THAT(fetch.Next(), Fails(Code::kUnavailable, "odd takes no reads"));
  }
  EXPECT_EQ(attached, 0);
}

TEST(ExpertCacheTest, WhatCannotBeAttachedIsDetachedAgain) {
  int attached = 0;
  auto source = std::make_unique<OddSource>();
  source->attached = &attached;
  EXPECT_THAT(ExpertCache::Create(std::move(source), {.num_slots = 6, .chunk_bytes = 8192}),
              Fails(Code::kResourceExhausted, "no room to register it"));
  EXPECT_EQ(attached, 0);
}

TEST(ExpertCacheTest, RefusesSourcesThatCannotFillThisMemory) {
  auto source = std::make_unique<OddSource>();
  source->fills_host = false;
  EXPECT_THAT(ExpertCache::Create(std::move(source), {.num_slots = 2}),
              Fails(Code::kUnsupported, "odd cannot read into"));
}

TEST(ExpertCacheTest, RefusesWhatItCannotServe) {
  const ExpertRecordLayout layout = TestLayout();
  const auto create = [&](size_t num_slots) {
    auto source = MemoryExpertSource::Create(layout, {});
    return ExpertCache::Create(std::move(source).value(), {.num_slots = num_slots});
  };
  EXPECT_THAT(create(1), Fails(Code::kInvalidArgument, "at least 2 slots, not 1"));
  EXPECT_THAT(create(size_t{1} << 31), Fails(Code::kResourceExhausted, "2147483648 slots of 4096"));
  EXPECT_THAT(create(SIZE_MAX), Fails(Code::kInvalidArgument, "at most"));
  EXPECT_THAT(ExpertCache::Create(MemorySource(), {.num_slots = 7, .slots_per_layer = 3}),
              Fails(Code::kInvalidArgument, "7 slots cannot be shared out 3 to a layer"));
}

}  // namespace
}  // namespace picchio
