// What a layer reads ahead for the next one.
#include <algorithm>
#include <set>
#include <vector>

#include "experts/memory_expert_source.h"
#include "model/fixture_test_support.h"
#include "model/tensor_set_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// A model whose residual stream is the embedding at every layer: what the next router will say is
// then what it says to the state as it is.
class ReadingAhead : public testing::Test {
 protected:
  ReadingAhead() {
    for (auto& [name, tensor] : dense_.tensors) {
      if (name.ends_with("o_proj.weight")) std::ranges::fill(tensor.bytes, std::byte{0});
    }
    for (auto& [key, record] : experts_.records) {
      const RecordPart& down = experts_.layout.down;
      std::fill_n(record.begin() + static_cast<ptrdiff_t>(down.offset), down.bytes, std::byte{0});
    }
    const uint32_t chosen = fixture_.config.experts_per_token;
    engine_.emplace(
        TestEngine::Make(dense_.Write(folder_), fixture_.config,
                         MemoryExpertSource::Create(experts_.layout, experts_.records).value(),
                         {.num_slots = 3 * chosen, .prefetch_slots = chosen}));
  }

  // What each layer of the last step was routed to; all layers have experts.
  class Routing : public StepObserver {
   public:
    void OnRouting(uint32_t layer, std::span<const float>, std::span<uint32_t> ids,
                   std::span<float>) override {
      chosen.resize(layer + 1);
      chosen[layer] = {ids.begin(), ids.end()};
    }
    std::vector<std::set<uint32_t>> chosen;
  };

  Routing Step(KvCache& kv, size_t count) {
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(next_++ * 37 % 512));
    Routing routing;
    engine_->Step(kv, tokens, LogitsWanted::kNone, &routing);
    return routing;
  }

  const Fixture fixture_ = Fixture::Open(TestData("fixtures/qwen3_moe_tiny"));
  TensorSet dense_ = TensorSet::DenseOf(fixture_);
  ExpertRecords experts_ = MakeRecords(fixture_, PayloadKind::kBf16);
  TemporaryFolder folder_;
  std::optional<TestEngine> engine_;
  size_t next_ = 1;
};

TEST_F(ReadingAhead, ThePredictionIsTheNextRoutersWord) {
  ASSERT_EQ(fixture_.config.num_moe_layers(), fixture_.config.num_hidden_layers);
  KvCache kv = engine_->NewKv(64);
  uint64_t foreseeable = 0;
  for (const size_t rows : {1, 1, 2, 8, 1, 7, 1}) {
    const Routing routing = Step(kv, rows);
    for (size_t layer = 1; layer < routing.chosen.size(); ++layer) {
      foreseeable += routing.chosen[layer].size();
    }
    const StepStats stats = engine_->pass->stats();
    EXPECT_EQ(stats.foreseeable, foreseeable);
    EXPECT_EQ(stats.foreseen, foreseeable);
  }
  EXPECT_GT(engine_->cache->stats().prefetched, 0u);
}

TEST_F(ReadingAhead, OneRowsMissesWereAllReadAhead) {
  KvCache kv = engine_->NewKv(64);
  for (int i = 0; i < 20; ++i) Step(kv, 1);
  const CacheStats stats = engine_->cache->stats();
  // A miss that was not read ahead is the first layer's: 20 times at most what a token chooses.
  EXPECT_EQ(stats.prefetch_used, stats.prefetched);
  EXPECT_GT(stats.prefetched, 20u);
  EXPECT_LE(stats.misses - stats.prefetch_used, 20 * fixture_.config.experts_per_token);
}

// More rows than are predicted: nothing, unless nearly all of a layer is needed.
TEST_F(ReadingAhead, ALongSpanReadsAheadWhereItNeedsNearlyAll) {
  KvCache kv = engine_->NewKv(512);
  const Routing narrow = [&] {
    // The same token again and again.
    Routing routing;
    engine_->Step(kv, std::vector<int32_t>(9, 5), LogitsWanted::kNone, &routing);
    return routing;
  }();
  EXPECT_EQ(narrow.chosen[0].size(), fixture_.config.experts_per_token);
  EXPECT_EQ(engine_->cache->stats().prefetched, 0u);
  const Routing wide = Step(kv, 200);
  EXPECT_GE(wide.chosen[0].size() * 8, fixture_.config.num_experts * 7u);
  EXPECT_GT(engine_->cache->stats().prefetched, 0u);
  EXPECT_GT(engine_->cache->stats().prefetch_used, 0u);
  EXPECT_EQ(engine_->pass->stats().foreseeable, 0u) << "no router was asked";
}

}  // namespace
}  // namespace picchio
