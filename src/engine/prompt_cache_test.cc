#include "engine/prompt_cache.h"

#include <numeric>
#include <utility>
#include <vector>

#include "support/test_support.h"

namespace picchio {
namespace {

// One layer that sees everything and, with a window, one that does not.
class PromptCacheTest : public testing::TestWithParam<uint32_t> {
 protected:
  PromptCacheTest() {
    config_.num_hidden_layers = 2;
    config_.num_attention_heads = 1;
    config_.num_key_value_heads = 1;
    config_.head_dim = 4;
    config_.layers = {{true, 0}, {true, GetParam()}};
  }

  static std::vector<int32_t> Ids(int32_t first, size_t count) {
    std::vector<int32_t> ids(count);
    std::iota(ids.begin(), ids.end(), first);
    return ids;
  }
  static std::vector<int32_t> Join(std::vector<int32_t> a, const std::vector<int32_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  // Rows that tell of their tokens' sequence, as keys and values do.
  static void Append(KvSequence& sequence, const std::vector<int32_t>& ids) {
    for (const int32_t id : ids) {
      sequence.BeforeStep(1);
      for (uint32_t layer = 0; layer < 2; ++layer) {
        const std::vector<float> row(4, Row(sequence.ids(), id, layer));
        sequence.kv().Write(layer, sequence.length(), row.data(), row.data());
      }
      sequence.kv().Commit(1);
      sequence.AfterStep(std::span(&id, 1));
    }
  }
  static float Row(std::span<const int32_t> before, int32_t id, uint32_t layer) {
    return static_cast<float>(std::accumulate(before.begin(), before.end(), id) % 100'000) +
           static_cast<float>(layer) / 4;
  }
  // What the next position may look at is what its tokens say.
  void ExpectWhole(KvSequence& sequence) const {
    const std::span<const int32_t> ids = sequence.ids();
    ASSERT_EQ(ids.size(), sequence.length());
    ASSERT_OK(sequence.kv().CheckRoom(0));
    for (uint32_t layer = 0; layer < 2; ++layer) {
      const uint32_t window = config_.layers[layer].sliding_window;
      const KvView view = sequence.kv().View(layer, 0);
      for (size_t p = window > 0 && ids.size() >= window ? ids.size() + 1 - window : 0;
           p < ids.size(); ++p) {
        ASSERT_EQ(view.k[p % view.capacity * view.row_stride], Row(ids.first(p), ids[p], layer));
      }
    }
  }
  KvSequence Make(const std::vector<int32_t>& ids, uint32_t context) const {
    KvSequence sequence = KvSequence::Create(config_, context).value();
    Append(sequence, ids);
    return sequence;
  }

  ModelConfig config_;
  PromptCache cache_;
};

INSTANTIATE_TEST_SUITE_P(Windows, PromptCacheTest, testing::Values(0u, 5u));

TEST_P(PromptCacheTest, FindsTheLongestBeginning) {
  EXPECT_FALSE(cache_.Find(Ids(0, 5)).has_value());
  cache_.Put(Make(Ids(0, 20), 50));
  cache_.Put(Make(Join(Ids(0, 10), Ids(50, 10)), 50));
  EXPECT_FALSE(cache_.Find(Ids(7, 5)).has_value());
  EXPECT_FALSE(cache_.Find(Ids(0, 1)).has_value()) << "the last token is run in any case";
  EXPECT_FALSE(cache_.Find({}).has_value());
  const auto whole = cache_.Find(Ids(0, 30));
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->positions, 20u);
  EXPECT_TRUE(whole->is_whole());
  EXPECT_EQ(cache_.Find(Ids(0, 20))->positions, 19u);
  const auto part = cache_.Find(Join(Ids(0, 10), Ids(50, 7)));
  EXPECT_EQ(part->positions, 16u);
  EXPECT_FALSE(part->is_whole());

  ASSERT_OK_AND_ASSIGN(KvSequence copy, cache_.Copy(*part, 200));
  EXPECT_EQ(copy.length(), 16u);
  EXPECT_EQ(copy.context(), 200u);
  ExpectWhole(copy);
  Append(copy, Ids(70, 150));
  ExpectWhole(copy);
  EXPECT_EQ(cache_.size(), 2u);
  KvSequence taken = cache_.Take(*cache_.Find(Ids(0, 30)));
  ExpectWhole(taken);
  EXPECT_EQ(taken.length(), 20u);
  EXPECT_EQ(cache_.size(), 1u);
  EXPECT_EQ(cache_.bytes(), KvCache::BytesFor(config_, 50));
}

TEST_P(PromptCacheTest, KeepsNothingTwice) {
  cache_.Put(Make({}, 50));
  EXPECT_EQ(cache_.size(), 0u);
  cache_.Put(Make(Ids(0, 10), 50));
  cache_.Put(Make(Ids(0, 12), 50));
  EXPECT_EQ(cache_.size(), 1u);
  EXPECT_EQ(cache_.Find(Ids(0, 30))->positions, 12u);
  cache_.Put(Make(Ids(0, 11), 70));
  EXPECT_EQ(cache_.size(), 1u);
  EXPECT_EQ(cache_.Find(Ids(0, 30))->positions, 12u);
  cache_.Put(Make(Ids(0, 12), 60));  // The same.
  EXPECT_EQ(cache_.size(), 1u);
  EXPECT_EQ(cache_.bytes(), KvCache::BytesFor(config_, 60));
}

TEST_P(PromptCacheTest, ShrinksWhatWasUsedLeastRecentlyFirst) {
  const uint64_t fat = KvCache::BytesFor(config_, 300);
  const uint64_t trim = KvCache::BytesFor(config_, 20);
  for (const int32_t first : {100, 200, 300, 400}) cache_.Put(Make(Ids(first, 20), 300));
  EXPECT_EQ(cache_.bytes(), 4 * fat);
  cache_.ShrinkTo(4 * fat);
  EXPECT_EQ(cache_.bytes(), 4 * fat);
  ASSERT_OK(cache_.Copy(*cache_.Find(Ids(100, 25)), 30));  // Used again.
  cache_.ShrinkTo(4 * fat - 1);
  EXPECT_EQ(cache_.bytes(), 3 * fat + trim);
  // All are trimmed before any goes.
  cache_.ShrinkTo(3 * trim);
  EXPECT_EQ(cache_.size(), 3u);
  EXPECT_EQ(cache_.bytes(), 3 * trim);
  EXPECT_FALSE(cache_.Find(Ids(200, 25)).has_value());
  for (const int32_t first : {100, 300, 400}) {
    ASSERT_OK_AND_ASSIGN(KvSequence copy, cache_.Copy(*cache_.Find(Ids(first, 25)), 40));
    EXPECT_EQ(copy.length(), 20u);
    ExpectWhole(copy);
  }
  const auto keep = cache_.Find(Ids(100, 25));
  cache_.ShrinkTo(trim, keep);
  EXPECT_EQ(cache_.size(), 1u);
  cache_.ShrinkTo(0, keep);
  EXPECT_EQ(cache_.size(), 1u);
  EXPECT_EQ(cache_.Find(Ids(100, 25))->positions, 20u);
  cache_.ShrinkTo(0);
  EXPECT_EQ(cache_.size(), 0u);
  EXPECT_EQ(cache_.bytes(), 0u);
}

// Long sequences of several turns: whatever prompt comes, what is handed out is what it says.
TEST_P(PromptCacheTest, AnyRewindIsWhole) {
  std::vector<int32_t> all = Ids(0, 1200);
  KvSequence sequence = KvSequence::Create(config_, 1500).value();
  for (const size_t end : {100, 140, 400, 1200}) {
    Append(sequence, {all.begin() + static_cast<ptrdiff_t>(sequence.length()),
                      all.begin() + static_cast<ptrdiff_t>(end)});
    sequence.MarkTurn();
  }
  cache_.Put(std::move(sequence));
  for (const size_t shared : {1190u, 1000u, 900u, 401u, 399u, 398u, 250u, 139u, 99u, 98u, 50u}) {
    std::vector<int32_t> prompt = all;
    prompt.resize(shared);
    prompt.push_back(-1);
    const auto match = cache_.Find(prompt);
    if (GetParam() == 0) {
      ASSERT_EQ(match->positions, shared);
    }
    if (!match.has_value()) {
      EXPECT_LT(shared, 99u);
      continue;
    }
    EXPECT_LE(match->positions, shared);
    EXPECT_GE(match->positions, shared >= 399   ? 399u
                                : shared >= 139 ? 139u
                                : shared >= 99  ? 99u
                                                : 0u);
    ASSERT_OK_AND_ASSIGN(KvSequence copy, cache_.Copy(*match, 2000));
    EXPECT_EQ(copy.length(), match->positions);
    ExpectWhole(copy);
    Append(copy, Ids(5, 300));
    ExpectWhole(copy);
    EXPECT_LE(copy.RewindTo(prompt), match->positions);
    ExpectWhole(copy);
  }
}

}  // namespace
}  // namespace picchio
