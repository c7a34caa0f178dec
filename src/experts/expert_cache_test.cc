#include "experts/expert_cache.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "experts/memory_expert_source.h"
#include "experts/records_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::unique_ptr<ExpertCache> MakeCache(size_t num_slots, int num_layers = 3, int num_experts = 16) {
  const ExpertRecordLayout layout = Int4TestLayout();
  auto source = MemoryExpertSource::Create(layout, TestRecords(layout, num_layers, num_experts));
  auto cache = ExpertCache::Create(std::move(source).value(), {.num_slots = num_slots});
  return std::move(cache).value();
}

// Whether `record` is that expert's.
bool IsRecordOf(std::span<const std::byte> record, ExpertKey key) {
  const std::vector<std::byte> expected = TestRecord(key, Int4TestLayout().record_bytes);
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

TEST(ExpertCacheTest, RefusesWhatItCannotServe) {
  const ExpertRecordLayout layout = Int4TestLayout();
  const auto create = [&](size_t num_slots) {
    auto source = MemoryExpertSource::Create(layout, {});
    return ExpertCache::Create(std::move(source).value(), {.num_slots = num_slots});
  };
  EXPECT_THAT(create(1), Fails(Code::kInvalidArgument, "at least 2 slots, not 1"));
  EXPECT_THAT(create(size_t{1} << 31), Fails(Code::kResourceExhausted, "2147483648 slots of 4096"));
  EXPECT_THAT(create(SIZE_MAX), Fails(Code::kInvalidArgument, "at most"));
}

}  // namespace
}  // namespace picchio
