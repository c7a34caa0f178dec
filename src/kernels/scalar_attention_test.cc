#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/equality_test_support.h"
#include "kernels/scalar.h"

namespace picchio {
namespace {

struct Case {
  size_t head_dim = 16;
  size_t first = 0;
  size_t position = 0;
  bool sink = false;
};

// Keys and values of all positions, in a ring or in full.
struct Cache {
  Cache(RandomInputs& random, size_t num_positions, size_t head_dim)
      : d(head_dim), k(random.Gaussian(num_positions * d)), v(random.Gaussian(num_positions * d)) {}

  // The same rows where a cache of `capacity` slots has them after the last position.
  std::vector<float> Ring(const std::vector<float>& rows, size_t capacity) const {
    std::vector<float> ring(capacity * d);
    for (size_t pos = 0; pos < rows.size() / d; ++pos) {
      for (size_t i = 0; i < d; ++i) ring[pos % capacity * d + i] = rows[pos * d + i];
    }
    return ring;
  }

  size_t d;
  std::vector<float> k;
  std::vector<float> v;
};

std::vector<float> Attend(const Case& c, const std::vector<float>& q, const std::vector<float>& k,
                          const std::vector<float>& v, const std::vector<float>& sinks) {
  std::vector<float> out(q.size());
  std::vector<float> scratch(AttentionScratchFloats(q.size() / c.head_dim, c.head_dim));
  scalar::Attention({.q = q.data(),
                     .num_heads = q.size() / c.head_dim,
                     .head_dim = c.head_dim,
                     .first_position = c.first,
                     .position = c.position,
                     .scale = AttentionScale(c.head_dim),
                     .sinks = c.sink ? sinks.data() : nullptr,
                     .kv = {k.data(), v.data(), c.head_dim, k.size() / c.head_dim},
                     .out = out.data()},
                    scratch.data());
  return out;
}

// softmax(q K^T / sqrt(d)) V in F64, in one piece, and how far F32 may be from it.
struct ExpectedAttention {
  std::vector<double> out;
  std::vector<double> tolerance;
};

ExpectedAttention Reference(const Case& c, const std::vector<float>& q, const Cache& cache,
                            const std::vector<float>& sinks) {
  constexpr double kEpsilon = 0x1p-24;
  const size_t d = c.head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const double num_blocks = static_cast<double>((c.position - c.first) / kAttentionBlock + 2);
  ExpectedAttention expected{std::vector<double>(q.size()), std::vector<double>(q.size())};
  for (size_t h = 0; h < q.size() / d; ++h) {
    double sum = c.sink ? std::exp(double{sinks[h]}) : 0;
    double score_error = 0;
    std::vector<double> magnitude(d);
    for (size_t pos = c.first; pos <= c.position; ++pos) {
      double score = 0;
      double terms = 0;
      for (size_t i = 0; i < d; ++i) {
        score += double{q[h * d + i]} * cache.k[pos * d + i];
        terms += std::fabs(double{q[h * d + i]} * cache.k[pos * d + i]);
      }
      // The fmas of a lane, four folds, the scale and its own two roundings.
      score_error =
          std::max(score_error, (static_cast<double>(d) / 16 + 8) * kEpsilon * terms * scale);
      const double weight = std::exp(score * scale);
      sum += weight;
      for (size_t i = 0; i < d; ++i) {
        expected.out[h * d + i] += weight * cache.v[pos * d + i];
        magnitude[i] += weight * std::fabs(cache.v[pos * d + i]);
      }
    }
    // A weight has its score's error, that of score - max (scores are below 30) and that of exp;
    // the value side then up to 64 fmas, the sum 8 additions, each merge a few roundings; one
    // division.
    const double weight_error = score_error + 34 * kEpsilon;
    const double error = 2 * weight_error + (64 + 8 + 12 * num_blocks + 1) * kEpsilon;
    for (size_t i = 0; i < d; ++i) {
      expected.out[h * d + i] /= sum;
      expected.tolerance[h * d + i] = error * magnitude[i] / sum;
    }
  }
  return expected;
}

const Case kCases[] = {
    {.head_dim = 16, .position = 0},
    {.head_dim = 16, .position = 0, .sink = true},
    {.head_dim = 32, .position = 63},
    {.head_dim = 32, .position = 64, .sink = true},
    {.head_dim = 128, .position = 299},
    {.head_dim = 24, .first = 100, .position = 100},
    {.head_dim = 64, .first = 127, .position = 254, .sink = true},
    {.head_dim = 64, .first = 64, .position = 191},
};

TEST(ScalarAttentionTest, IsSoftmaxTimesValues) {
  RandomInputs random(41);
  for (const Case& c : kCases) {
    const Cache cache(random, c.position + 1, c.head_dim);
    const auto q = random.Gaussian(3 * c.head_dim);
    const auto sinks = random.Gaussian(3);
    const auto out = Attend(c, q, cache.k, cache.v, sinks);
    const auto expected = Reference(c, q, cache, sinks);
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_NEAR(out[i], expected.out[i], expected.tolerance[i]);
    }
  }
}

TEST(ScalarAttentionTest, ARingGivesTheSameBits) {
  RandomInputs random(42);
  const Case c{.head_dim = 32, .first = 150, .position = 277, .sink = true};
  const Cache cache(random, c.position + 1, c.head_dim);
  const auto q = random.Gaussian(2 * c.head_dim);
  const auto sinks = random.Gaussian(2);
  const auto full = Attend(c, q, cache.k, cache.v, sinks);
  for (const size_t capacity : {128, 129, 200, 277}) {
    EXPECT_EQ(Attend(c, q, cache.Ring(cache.k, capacity), cache.Ring(cache.v, capacity), sinks),
              full);
  }
}

TEST(ScalarAttentionTest, HeadsDoNotMeet) {
  RandomInputs random(43);
  const Case c{.head_dim = 32, .position = 100};
  const Cache cache(random, c.position + 1, c.head_dim);
  const auto q = random.Gaussian(2 * c.head_dim);
  const auto both = Attend(c, q, cache.k, cache.v, {});
  const auto second = Attend(c, {q.begin() + 32, q.end()}, cache.k, cache.v, {});
  EXPECT_EQ(std::vector<float>(both.begin() + 32, both.end()), second);
}

TEST(ScalarAttentionTest, AScoreFarAboveTheRestTakesAll) {
  // Position 70 scores 1e4, the rest 0: weights underflow to zero in its block and in the others.
  const Case c{.head_dim = 16, .position = 140};
  std::vector<float> k(141 * 16, 0.0F);
  std::vector<float> v(141 * 16, 3.0F);
  std::fill_n(k.begin() + 70 * 16, 16, 100.0F);
  std::fill_n(v.begin() + 70 * 16, 16, -7.0F);
  const auto out = Attend(c, std::vector<float>(16, 25.0F), k, v, {});
  for (const float o : out) EXPECT_EQ(o, -7.0F);
}

TEST(ScalarAttentionTest, EqualScoresAverage) {
  const Case c{.head_dim = 16, .position = 2, .sink = true};
  std::vector<float> v(3 * 16);
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i / 16);
  // Three positions and a sink of score 0 each: (0 + 1 + 2) / 4.
  const auto out =
      Attend(c, std::vector<float>(16, 0.0F), std::vector<float>(3 * 16, 1.0F), v, {0});
  for (const float o : out) EXPECT_EQ(o, 0.75F);
}

TEST(ScalarAttentionTest, WhatIsNoNumberStaysNone) {
  RandomInputs random(44);
  const Case c{.head_dim = 16, .position = 80};
  Cache cache(random, c.position + 1, c.head_dim);
  const auto q = random.Gaussian(16);
  cache.k[77 * 16 + 3] = std::numeric_limits<float>::quiet_NaN();
  for (const float o : Attend(c, q, cache.k, cache.v, {})) EXPECT_TRUE(std::isnan(o));
}

TEST(ScalarAttentionTest, ScaleIsTheInverseRoot) {
  EXPECT_EQ(AttentionScale(64), 0.125F);
  EXPECT_EQ(AttentionScale(128), 1.0F / std::sqrt(128.0F));
}

}  // namespace
}  // namespace picchio
