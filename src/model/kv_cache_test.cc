#include "model/kv_cache.h"

#include <algorithm>
#include <vector>

#include "support/test_support.h"

namespace picchio {
namespace {

constexpr uint32_t kWindow = 5;
constexpr uint32_t kRing = kWindow + KvCache::kSlidingChunk - 1;

// Layer 0 sees everything, layer 1 has a window.
ModelConfig TwoLayers() {
  ModelConfig config;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 2;
  config.head_dim = 4;
  config.layers = {{true, 0}, {true, kWindow}};
  return config;
}

float Value(uint32_t layer, uint32_t position, uint32_t head, uint32_t i, uint32_t history) {
  return static_cast<float>(history * 1000000 + layer * 100000 + position * 10 + head * 4 + i);
}

// Writes positions [length, length + count) as a step does. `history` tells futures apart.
void Append(KvCache& cache, uint32_t count, uint32_t history = 0) {
  ASSERT_OK(cache.CheckRoom(count));
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (uint32_t p = cache.length(); p < cache.length() + count; ++p) {
      float key[8];
      float value[8];
      for (uint32_t i = 0; i < 8; ++i) {
        key[i] = Value(layer, p, i / 4, i % 4, history);
        value[i] = -key[i];
      }
      cache.Write(layer, p, key, value);
    }
  }
  cache.Commit(count);
}

void ExpectRow(const KvCache& cache, uint32_t layer, uint32_t position, uint32_t history) {
  for (uint32_t head = 0; head < 2; ++head) {
    const KvView view = cache.View(layer, head);
    const size_t row = position % view.capacity * view.row_stride;
    for (uint32_t i = 0; i < 4; ++i) {
      const float expected = Value(layer, position, head, i, history);
      ASSERT_EQ(view.k[row + i], expected) << "layer " << layer << " position " << position;
      ASSERT_EQ(view.v[row + i], -expected);
    }
  }
}

// What the next position may look at.
void ExpectVisible(const KvCache& cache, uint32_t changed_at = UINT32_MAX, uint32_t history = 0) {
  const uint32_t length = cache.length();
  for (uint32_t p = 0; p < length; ++p) ExpectRow(cache, 0, p, p < changed_at ? 0 : history);
  for (uint32_t p = length < kWindow ? 0 : length + 1 - kWindow; p < length; ++p) {
    ExpectRow(cache, 1, p, p < changed_at ? 0 : history);
  }
}

TEST(KvCache, KeepsAllOrTheWindow) {
  ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(TwoLayers(), 400));
  EXPECT_EQ(cache.bytes(), KvCache::BytesFor(TwoLayers(), 400));
  // And two checkpoints of four rows.
  EXPECT_EQ(cache.bytes(), 2u * 8 * 4 * (400 + kRing + 2 * 4));
  EXPECT_EQ(cache.View(0, 1).capacity, 400u);
  EXPECT_EQ(cache.View(1, 1).capacity, kRing);
  EXPECT_EQ(cache.ChunkOf(0), 400u);
  EXPECT_EQ(cache.ChunkOf(1), KvCache::kSlidingChunk);
  for (const uint32_t count : {1, 3, 128, 100, 1, 60}) {
    Append(cache, count);
    ExpectVisible(cache);
  }
}

TEST(KvCache, AShortContextNeedsNoLongRing) {
  ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(TwoLayers(), 3));
  EXPECT_EQ(cache.bytes(), 2u * 8 * 4 * (3 + 3 + 2 * 3));
  Append(cache, 3);
  ExpectVisible(cache);
  EXPECT_THAT(cache.CheckRoom(1),
              Fails(Code::kInvalidArgument, "1 more tokens after 3 do not fit the context of 3"));
}

TEST(KvCache, RefusesImpossibleContexts) {
  EXPECT_THAT(KvCache::Create(TwoLayers(), 0), Fails(Code::kInvalidArgument, "context of 0"));
  EXPECT_THAT(KvCache::Create(TwoLayers(), ModelConfig::kMaxPositions + 1),
              Fails(Code::kInvalidArgument, "expected 1 to 2097152"));
  // More than any address space: not a crash.
  ModelConfig huge = TwoLayers();
  huge.num_key_value_heads = 1024;
  huge.head_dim = 1024;
  huge.num_hidden_layers = 1024;
  huge.layers.assign(1024, {true, 0});
  EXPECT_THAT(KvCache::Create(huge, ModelConfig::kMaxPositions),
              Fails(Code::kResourceExhausted, "try a smaller context"));
}

TEST(KvCache, RewindsAsFarAsTheRingReaches) {
  ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(TwoLayers(), 1000));
  Append(cache, 300);
  EXPECT_EQ(cache.Reachable(301), 300u);
  // The ring holds [300 - kRing, 300); at 172 the next position looks at 168 to 171.
  EXPECT_EQ(cache.Reachable(300 - kRing + kWindow - 1), 300 - kRing + kWindow - 1);
  EXPECT_EQ(cache.Reachable(300 - kRing + kWindow - 2), 0u);

  EXPECT_EQ(cache.Rewind(180), 180u);
  EXPECT_EQ(cache.length(), 180u);
  ExpectVisible(cache);
  Append(cache, 20, 7);
  ExpectVisible(cache, 180, 7);

  EXPECT_EQ(cache.Rewind(10), 0u);
  Append(cache, 10);
  ExpectVisible(cache);
}

TEST(KvCache, WithoutSlidingLayersAnyRewindWorks) {
  ModelConfig config = TwoLayers();
  config.layers[1].sliding_window = 0;
  ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(config, 1000));
  EXPECT_EQ(cache.bytes(), 2u * 8 * 4 * 2000);
  Append(cache, 500);
  cache.KeepCheckpoint(500);
  EXPECT_EQ(cache.last_checkpoint(), 0u) << "nobody needs it";
  Append(cache, 300);
  EXPECT_EQ(cache.Rewind(600), 600u);
  EXPECT_EQ(cache.Rewind(1), 1u);
}

TEST(KvCache, CheckpointsBringTheWindowBack) {
  ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(TwoLayers(), 1000));
  Append(cache, 2);
  cache.KeepCheckpoint(2);
  Append(cache, 198);
  cache.KeepCheckpoint(195);  // The ring reaches back to it.
  Append(cache, 400, 7);
  EXPECT_EQ(cache.Reachable(599), 599u);
  EXPECT_EQ(cache.Reachable(300), 195u);
  EXPECT_EQ(cache.Reachable(194), 2u);
  EXPECT_EQ(cache.Reachable(1), 0u);
  EXPECT_EQ(cache.Rewind(200), 195u);
  EXPECT_EQ(cache.length(), 195u);
  ExpectVisible(cache);
  EXPECT_EQ(cache.Reachable(195), 195u);
  EXPECT_EQ(cache.Reachable(194), 2u) << "the ring behind the window was not restored";
  Append(cache, 130, 8);
  ExpectVisible(cache, 195, 8);
  EXPECT_EQ(cache.Rewind(195), 195u);
  EXPECT_EQ(cache.Rewind(100), 2u);
  ExpectVisible(cache);
}

TEST(KvCache, CheckpointsOfAnotherFutureAreGone) {
  ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(TwoLayers(), 1000));
  Append(cache, 50);
  cache.KeepCheckpoint(50);
  Append(cache, 50);
  cache.KeepCheckpoint(100);
  EXPECT_EQ(cache.Rewind(70), 70u);
  Append(cache, 400, 7);
  EXPECT_EQ(cache.Rewind(120), 50u) << "positions 70 to 99 are others now";
  ExpectVisible(cache);
}

TEST(KvCache, KeepsFewCheckpointsFarApart) {
  ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(TwoLayers(), 1000));  // Three of them.
  for (const uint32_t position : {300, 310, 600, 620}) {
    Append(cache, position - cache.length());
    cache.KeepCheckpoint(position);
  }
  EXPECT_EQ(cache.last_checkpoint(), 620u);  // Though the one before is nearest.
  Append(cache, 300);
  EXPECT_EQ(cache.Reachable(700), 620u);
  EXPECT_EQ(cache.Reachable(619), 600u);
  EXPECT_EQ(cache.Reachable(599), 300u) << "the one at 310 was too near";
  EXPECT_EQ(cache.Rewind(619), 600u);
  ExpectVisible(cache);
  EXPECT_EQ(cache.Rewind(599), 300u);
  ExpectVisible(cache);
}

TEST(KvCache, AStepThatEndedMidwayIsRewound) {
  ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(TwoLayers(), 1000));
  Append(cache, 200);
  cache.KeepCheckpoint(180);
  const float row[8] = {};
  // One that dies after a few positions does no harm, one of many does.
  for (uint32_t p = 200; p < 328; ++p) cache.Write(1, p, row, row);
  ExpectVisible(cache);
  EXPECT_OK(cache.CheckRoom(1));
  cache.Write(1, 328, row, row);
  EXPECT_THAT(cache.CheckRoom(1), Fails(Code::kInvalidArgument, "before position 200 are gone"));
  EXPECT_EQ(cache.Rewind(200), 180u);
  EXPECT_OK(cache.CheckRoom(1));
  ExpectVisible(cache);
  cache.KeepCheckpoint(180);
  Append(cache, 20);
  cache.KeepCheckpoint(200);
  for (uint32_t p = 200; p < 500; ++p) cache.Write(1, p, row, row);
  EXPECT_EQ(cache.Rewind(200), 200u);
  ExpectVisible(cache);
}

// At lengths before the ring is full, when it has wrapped around, and far beyond.
TEST(KvCache, ResizedAndCopiedItHoldsTheSame) {
  for (const uint32_t length : {0u, 3u, 60u, 131u, 132u, 133u, 300u}) {
    ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(TwoLayers(), 400));
    Append(cache, length / 3);
    cache.KeepCheckpoint(length / 3);
    Append(cache, length - length / 3);
    // To the least that there may be, and up again.
    for (const uint32_t context : {std::max(length, 1u), 140u + length, 1000u}) {
      ASSERT_OK(cache.Resize(context));
      EXPECT_EQ(cache.context(), context);
      EXPECT_EQ(cache.bytes(), KvCache::BytesFor(TwoLayers(), context));
      ExpectVisible(cache);
      EXPECT_EQ(cache.Reachable(length / 3), length / 3);
    }
    for (const uint32_t position : {length / 3, length}) {
      ASSERT_OK_AND_ASSIGN(KvCache copy, cache.CopyPrefix(position, 600));
      EXPECT_EQ(copy.length(), position);
      ExpectVisible(copy);
      EXPECT_EQ(copy.Reachable(length / 3), length / 3);
      Append(copy, 200, 7);
      ExpectVisible(copy, position, 7);
      EXPECT_EQ(copy.Rewind(length / 3), length / 3);
      ExpectVisible(copy);
    }
    Append(cache, 200);
    ExpectVisible(cache);  // No copy has touched it.
  }
  ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(TwoLayers(), 10));
  EXPECT_THAT(cache.Resize(0), Fails(Code::kInvalidArgument, "context of 0"));
  EXPECT_THAT(cache.CopyPrefix(0, 0), Fails(Code::kInvalidArgument, "context of 0"));
}

}  // namespace
}  // namespace picchio
