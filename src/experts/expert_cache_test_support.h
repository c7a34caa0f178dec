// Caches over records whose bytes say which expert they are, and orderly ways of using them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "experts/expert_cache.h"
#include "experts/faulty_expert_source.h"
#include "experts/records_test_support.h"
#include "support/test_support.h"

namespace picchio {

inline constexpr int kNumLayers = 3;
inline constexpr int kNumExperts = 16;

inline std::unique_ptr<ExpertSource> MemorySource(size_t max_in_flight = 64) {
  return TestMemorySource(TestLayout(), 0, kNumLayers, kNumExperts, max_in_flight);
}

inline std::unique_ptr<ExpertCache> MakeCache(size_t num_slots,
                                              std::unique_ptr<ExpertSource> source = MemorySource(),
                                              CachePolicy policy = kDefaultCachePolicy) {
  // Two slots to a chunk.
  return ExpertCache::Create(std::move(source),
                             {.num_slots = num_slots, .chunk_bytes = 8192, .policy = policy})
      .value();
}

inline std::unique_ptr<FaultyExpertSource> Faulty(const FaultPlan& plan,
                                                  size_t max_in_flight = 64) {
  return std::make_unique<FaultyExpertSource>(MemorySource(max_in_flight), plan);
}

// Whether `record` is that expert's.
inline bool IsRecordOf(std::span<const std::byte> record, ExpertKey key) {
  const std::vector<std::byte> expected = TestRecord(key, TestLayout());
  return std::equal(record.begin(), record.end(), expected.begin(), expected.end());
}

// Takes all of the list; checks each record's bytes; returns the indexes in the order they came.
inline std::vector<int> FetchAll(ExpertCache& cache, int layer,
                                 const std::vector<int32_t>& experts) {
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

inline std::vector<int32_t> RandomList(std::mt19937& random, size_t length) {
  std::vector<int32_t> experts(kNumExperts);
  for (int i = 0; i < kNumExperts; ++i) experts[static_cast<size_t>(i)] = i;
  std::shuffle(experts.begin(), experts.end(), random);
  experts.resize(length);
  return experts;
}

inline FaultPlan Disorder(uint64_t seed) {
  FaultPlan plan;
  plan.seed = seed;
  plan.delay_rate = 0.05;
  plan.delay = std::chrono::microseconds(20);
  plan.refuse_rate = 0.3;
  plan.shuffle = true;
  return plan;
}

// A cache of 4096-byte slots, two to a chunk, some of them for prefetch, for a model of 2 experts a
// token.
inline std::unique_ptr<ExpertCache> MakePrefetchCache(size_t num_slots, size_t prefetch_slots,
                                                      std::unique_ptr<ExpertSource> source,
                                                      CachePolicy policy = kDefaultCachePolicy) {
  return ExpertCache::Create(std::move(source), {.num_slots = num_slots,
                                                 .chunk_bytes = 8192,
                                                 .policy = policy,
                                                 .prefetch_slots = prefetch_slots,
                                                 .experts_per_token = 2})
      .value();
}

}  // namespace picchio
