#include "experts/expert_cache.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "experts/expert_cache_test_support.h"
#include "experts/memory_expert_source.h"
#include "experts/tiered_expert_source.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

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

// Everything that is read from the third on never comes.
TEST(ExpertCacheTest, HitsComeFirstAndWaitForNothing) {
  FaultPlan plan{.delay = std::chrono::hours(1)};
  plan.delay_reads = {2, 3};
  const auto cache = MakeCache(8, Faulty(plan));
  FetchAll(*cache, 0, {1, 2});
  FetchAll(*cache, 0, {2, 1});
  EXPECT_EQ(cache->stats().hits, 2u);
  EXPECT_EQ(cache->stats().reads, 2u);
  const auto waited = cache->stats().wait;
  ExpertCache::Fetch fetch = cache->Begin(0, std::vector<int32_t>{7, 2, 5, 1});
  EXPECT_EQ(cache->reads_in_flight(), 2u);
  const auto ready = fetch.Next();
  ASSERT_OK(ready);
  ASSERT_EQ(ready->size(), 2u);
  EXPECT_EQ((*ready)[0].index, 1);
  EXPECT_EQ((*ready)[1].index, 3);
  EXPECT_TRUE(IsRecordOf((*ready)[0].record, {0, 2}));
  EXPECT_TRUE(IsRecordOf((*ready)[1].record, {0, 1}));
  EXPECT_EQ(cache->stats().wait, waited);
}

// Counts how often completions are taken, which is when a source verifies them.
class ReapCounter final : public ExpertSource {
 public:
  explicit ReapCounter(int* reaps) : reaps_(reaps) {}
  const std::string& name() const override { return inner_->name(); }
  const ExpertRecordLayout& layout() const override { return inner_->layout(); }
  size_t max_in_flight() const override { return inner_->max_in_flight(); }
  size_t Submit(std::span<const ReadRequest> requests) override { return inner_->Submit(requests); }
  size_t Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) override {
    ++*reaps_;
    return inner_->Reap(out, timeout);
  }
  void Cancel(uint64_t tag) override { inner_->Cancel(tag); }
  void Drain() override { inner_->Drain(); }

 private:
  const std::unique_ptr<ExpertSource> inner_ = MemorySource();
  int* const reaps_;
};

TEST(ExpertCacheTest, HitsComeBeforeWhatHasLandedIsLookedAt) {
  int reaps = 0;
  const auto cache = MakeCache(8, std::make_unique<ReapCounter>(&reaps));
  FetchAll(*cache, 0, {1, 2});
  const int before = reaps;
  EXPECT_GT(before, 0);
  ExpertCache::Fetch fetch = cache->Begin(0, std::vector<int32_t>{1, 2, 3});
  const auto hits = fetch.Next();
  ASSERT_OK(hits);
  EXPECT_EQ(hits->size(), 2u);
  EXPECT_EQ(reaps, before) << "the third lies there, ready";
  const auto miss = fetch.Next();
  ASSERT_OK(miss);
  EXPECT_EQ(miss->size(), 1u);
  EXPECT_GT(reaps, before);
}

TEST(ExpertCacheTest, TellsWhenTheSourceHasAllThatIsMissing) {
  const auto cache = MakeCache(8, MemorySource(2));
  {
    ExpertCache::Fetch fetch = cache->Begin(0, std::vector<int32_t>{1, 2});
    EXPECT_TRUE(fetch.all_submitted());
  }
  {
    // Room for two of three.
    ExpertCache::Fetch fetch = cache->Begin(0, std::vector<int32_t>{3, 4, 5});
    EXPECT_FALSE(fetch.all_submitted());
    for (size_t seen = 0; seen < 3;) {
      const auto ready = fetch.Next();
      ASSERT_OK(ready);
      seen += ready->size();
    }
    EXPECT_TRUE(fetch.all_submitted());
  }
  // Slots for four of five: the last one's turn comes when another is done.
  const auto small = MakeCache(4);
  ExpertCache::Fetch fetch = small->Begin(0, std::vector<int32_t>{1, 2, 3, 4, 5});
  EXPECT_FALSE(fetch.all_submitted());
  ASSERT_OK(fetch.Next());
  EXPECT_FALSE(fetch.all_submitted()) << "all four are still in use";
  ASSERT_OK(fetch.Next());
  EXPECT_TRUE(fetch.all_submitted());
}

// With overlap off nothing is handed out, hits neither, before all is there that has a slot.
TEST(ExpertCacheTest, WithoutOverlapAListComesWhole) {
  FaultPlan plan = Disorder(4);
  plan.delay_rate = 0.5;
  const auto cache =
      ExpertCache::Create(Faulty(plan), {.num_slots = 8, .chunk_bytes = 8192, .overlap = false})
          .value();
  FetchAll(*cache, 0, {1, 2});
  for (int layer = 0; layer < kNumLayers; ++layer) {
    ExpertCache::Fetch fetch = cache->Begin(layer, std::vector<int32_t>{7, 2, 5, 1});
    const auto ready = fetch.Next();
    ASSERT_OK(ready);
    EXPECT_EQ(ready->size(), 4u);
  }
  EXPECT_EQ(FetchAll(*cache, 1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).size(), 12u);
}

// What is read while nobody waits is told apart from what is waited for.
TEST(ExpertCacheTest, TellsReadingAndWaitingApart) {
  FaultPlan plan{.delay = std::chrono::hours(1)};
  plan.delay_reads = {1};
  const auto cache = MakeCache(8, Faulty(plan));
  EXPECT_EQ(cache->stats().reading.count(), 0);
  cache->Preload(std::vector<CacheDirectory::Uses>{{{1, 1}, 5.0}});
  FetchAll(*cache, 0, {1});
  EXPECT_EQ(cache->reads_in_flight(), 1u) << "the preload";
  const CacheStats before = cache->stats();
  FetchAll(*cache, 0, {1});
  const CacheStats after = cache->stats();
  EXPECT_GT(after.reading, before.reading);
  EXPECT_EQ(after.wait, before.wait);
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
