#include <set>

#include "experts/expert_cache_test_support.h"

namespace picchio {
namespace {

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

// Chunks go between fetches, with and without parts and prefetch slots; what was worth most stays
// without another read, every record is right.
TEST(ExpertCacheShrinkTest, ShrinksWhileItIsUsed) {
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

TEST(ExpertCacheShrinkTest, ShrinkingLeavesEachLayerASlot) {
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

}  // namespace
}  // namespace picchio
