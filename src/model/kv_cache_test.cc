#include "model/kv_cache.h"

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
  EXPECT_EQ(cache.bytes(), 2u * 8 * 4 * (400 + kRing));
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
  EXPECT_EQ(cache.bytes(), 2u * 8 * 4 * (3 + 3));
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
  EXPECT_FALSE(cache.CanRewind(301));
  // The ring holds [300 - kRing, 300); at 172 the next position looks at 168 to 171.
  EXPECT_TRUE(cache.CanRewind(300 - kRing + kWindow - 1));
  EXPECT_FALSE(cache.CanRewind(300 - kRing + kWindow - 2));
  EXPECT_THAT(cache.Rewind(100), Fails(Code::kInvalidArgument, "go back to position 100 of 300"));

  ASSERT_OK(cache.Rewind(180));
  EXPECT_EQ(cache.length(), 180u);
  ExpectVisible(cache);
  Append(cache, 20, 7);
  ExpectVisible(cache, 180, 7);

  ASSERT_OK(cache.Rewind(0));
  Append(cache, 10);
  ExpectVisible(cache);
}

TEST(KvCache, WithoutSlidingLayersAnyRewindWorks) {
  ModelConfig config = TwoLayers();
  config.layers[1].sliding_window = 0;
  ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(config, 1000));
  Append(cache, 500);
  EXPECT_EQ(cache.MaxSnapshotBytes(), 0u);
  const KvCache::Snapshot snapshot = cache.TakeSnapshot();
  EXPECT_EQ(snapshot.bytes(), 0u);
  Append(cache, 300);
  ASSERT_OK(cache.Rewind(600));
  ASSERT_OK(cache.Restore(snapshot));
  EXPECT_EQ(cache.length(), 500u);
  ASSERT_OK(cache.Rewind(1));
}

TEST(KvCache, SnapshotsBringTheWindowBack) {
  ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(TwoLayers(), 1000));
  Append(cache, 2);
  const KvCache::Snapshot early = cache.TakeSnapshot();
  EXPECT_EQ(early.position(), 2u);
  EXPECT_EQ(early.bytes(), 2u * 2 * 8 * 4);
  Append(cache, 198);
  const KvCache::Snapshot snapshot = cache.TakeSnapshot();
  EXPECT_EQ(snapshot.bytes(), cache.MaxSnapshotBytes());
  EXPECT_EQ(snapshot.bytes(), 2u * 4 * 8 * 4);
  Append(cache, 400, 7);
  EXPECT_FALSE(cache.CanRewind(200));
  ASSERT_OK(cache.Restore(snapshot));
  EXPECT_EQ(cache.length(), 200u);
  ExpectVisible(cache);
  EXPECT_TRUE(cache.CanRewind(200));
  EXPECT_FALSE(cache.CanRewind(199)) << "the ring behind the window was not restored";
  Append(cache, 130, 8);
  ExpectVisible(cache, 200, 8);
  ASSERT_OK(cache.Restore(snapshot));
  ASSERT_OK(cache.Restore(early));
  EXPECT_EQ(cache.length(), 2u);
  ExpectVisible(cache);
}

TEST(KvCache, SnapshotsOfAnotherPastAreRefused) {
  ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(TwoLayers(), 1000));
  Append(cache, 50);
  const KvCache::Snapshot at_50 = cache.TakeSnapshot();
  Append(cache, 50);
  const KvCache::Snapshot at_100 = cache.TakeSnapshot();
  ASSERT_OK(cache.Rewind(70));
  EXPECT_FALSE(cache.CanRestore(at_100));
  Append(cache, 60, 7);
  EXPECT_FALSE(cache.CanRestore(at_100)) << "positions 70 to 99 are others now";
  EXPECT_THAT(cache.Restore(at_100), Fails(Code::kInvalidArgument, "snapshot of position 100"));
  EXPECT_TRUE(cache.CanRestore(at_50));
  const KvCache::Snapshot at_130 = cache.TakeSnapshot();
  Append(cache, 10, 7);
  ASSERT_OK(cache.Rewind(135));
  ASSERT_OK(cache.Rewind(131));
  EXPECT_TRUE(cache.CanRestore(at_130));
  EXPECT_TRUE(cache.CanRestore(at_50));
  ASSERT_OK(cache.Restore(at_50));
  EXPECT_FALSE(cache.CanRestore(at_130));

  ASSERT_OK_AND_ASSIGN(KvCache other, KvCache::Create(TwoLayers(), 1000));
  Append(other, 60);
  EXPECT_FALSE(other.CanRestore(at_50));
}

TEST(KvCache, NoticesWindowsThatAFailedStepWroteOver) {
  ASSERT_OK_AND_ASSIGN(KvCache cache, KvCache::Create(TwoLayers(), 1000));
  Append(cache, 200);
  const float row[8] = {};
  // A step that dies after a few positions does no harm, one of many does.
  for (uint32_t p = 200; p < 328; ++p) cache.Write(1, p, row, row);
  ExpectVisible(cache);
  EXPECT_OK(cache.CheckRoom(1));
  cache.Write(1, 328, row, row);
  EXPECT_THAT(cache.CheckRoom(1), Fails(Code::kInvalidArgument, "before position 200 are gone"));
  ASSERT_OK(cache.Rewind(0));
  EXPECT_OK(cache.CheckRoom(1));
}

}  // namespace
}  // namespace picchio
