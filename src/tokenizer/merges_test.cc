#include "tokenizer/merges.h"

#include <array>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "support/test_support.h"

namespace picchio {
namespace {

std::array<int32_t, 256> OwnIds() {
  std::array<int32_t, 256> ids{};
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

std::vector<int32_t> Encoded(const Merges& merges, std::string_view piece) {
  Merges::Scratch scratch;
  std::vector<int32_t> out;
  merges.Encode(piece, scratch, out);
  return out;
}

using Ids = std::vector<int32_t>;

TEST(Merges, WithoutMergesTheBytesRemain) {
  std::array<int32_t, 256> reversed{};
  for (int i = 0; i < 256; ++i) reversed[static_cast<size_t>(i)] = 255 - i;
  const Merges merges(reversed);
  EXPECT_EQ(Encoded(merges, ""), Ids{});
  EXPECT_EQ(Encoded(merges, "\xFF"), Ids{0});
  EXPECT_EQ(Encoded(merges, std::string_view("\0a", 2)), (Ids{255, 158}));
}

TEST(Merges, LowestRankThenLeftmost) {
  Merges merges(OwnIds());
  ASSERT_OK(merges.Add('b', 'c', 300));
  ASSERT_OK(merges.Add('a', 'b', 301));
  ASSERT_OK(merges.Add('a', 'a', 302));
  ASSERT_OK(merges.Add(302, 'a', 303));
  EXPECT_EQ(Encoded(merges, "abc"), (Ids{'a', 300}));  // bc comes first, ab is gone then.
  EXPECT_EQ(Encoded(merges, "abab"), (Ids{301, 301}));
  EXPECT_EQ(Encoded(merges, "aaa"), (Ids{303}));
  EXPECT_EQ(Encoded(merges, "aaaaa"), (Ids{302, 303}));  // aa aa a, and the rest.
  EXPECT_EQ(Encoded(merges, "xaabx"), (Ids{'x', 'a', 301, 'x'}));
}

TEST(Merges, TheSamePairTwice) {
  Merges merges(OwnIds());
  ASSERT_OK(merges.Add('a', 'b', 300));
  EXPECT_THAT(merges.Add('a', 'b', 301), Fails(Code::kCorrupt, "at rank 0"));
}

// The definition, step by step: find the pair of the lowest rank, leftmost; merge it; begin again.
Ids ByDefinition(const std::map<std::pair<int, int>, std::pair<size_t, int>>& merges, Ids ids) {
  while (true) {
    size_t best = ids.size();
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = merges.find({ids[i], ids[i + 1]});
      if (found == merges.end()) continue;
      if (best == ids.size() || found->second.first < merges.at({ids[best], ids[best + 1]}).first) {
        best = i;
      }
    }
    if (best == ids.size()) return ids;
    ids[best] = merges.at({ids[best], ids[best + 1]}).second;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

// Vocabularies whose merges come in any order, so that a merge can make a pair of a lower rank.
TEST(Merges, EqualToTheDefinition) {
  std::mt19937 random(7);
  const auto below = [&random](size_t n) { return static_cast<int>(random() % n); };
  for (int vocabulary = 0; vocabulary < 40; ++vocabulary) {
    const int letters = 2 + below(3);
    // Tokens as strings, so that one text is always one id.
    std::map<std::string, int> ids;
    std::vector<std::string> tokens;
    for (int i = 0; i < letters; ++i) {
      tokens.emplace_back(1, static_cast<char>(i));
      ids[tokens.back()] = i;
    }
    std::map<std::pair<int, int>, std::pair<size_t, int>> reference;
    std::vector<std::pair<int, int>> order;
    for (int i = 0; i < 60; ++i) {
      const int left = below(tokens.size());
      const int right = below(tokens.size());
      const std::string both =
          tokens[static_cast<size_t>(left)] + tokens[static_cast<size_t>(right)];
      if (both.size() > 12 || reference.contains({left, right})) continue;
      const auto [known, is_new] = ids.try_emplace(both, static_cast<int>(tokens.size()));
      if (is_new) tokens.push_back(both);
      reference[{left, right}] = {0, known->second};
      order.emplace_back(left, right);
    }
    std::shuffle(order.begin(), order.end(), random);
    Merges merges(OwnIds(), order.size() / 2);
    for (size_t rank = 0; rank < order.size(); ++rank) {
      reference[order[rank]].first = rank;
      ASSERT_OK(merges.Add(order[rank].first, order[rank].second, reference[order[rank]].second));
    }
    for (int text = 0; text < 40; ++text) {
      std::string piece;
      for (int i = below(80); i >= 0; --i) piece += static_cast<char>(below(size_t(letters)));
      EXPECT_EQ(Encoded(merges, piece), ByDefinition(reference, Ids(piece.begin(), piece.end())));
    }
  }
}

}  // namespace
}  // namespace picchio
