#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "engine/philox.h"
#include "support/test_support.h"

namespace picchio {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A small generator for test inputs that has nothing to do with the sampler's own.
class Noise {
 public:
  explicit Noise(uint64_t seed) : state_(seed) {}
  double Unit() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }
  size_t Below(size_t n) { return static_cast<size_t>(Unit() * static_cast<double>(n)); }

 private:
  uint64_t state_;
};

// What docs/sampling.md says, computed anew: everything sorted first, in `long double`, with the C
// library's exponential, sums in rank order. Differs from F64 only where a sum meets a threshold to
// within a few units of 2^-53, which does not happen to the fixed inputs here.
int32_t BruteForce(std::vector<float> logits, size_t vocabulary, const SamplingParams& params,
                   const std::vector<int32_t>& prompt, const std::vector<int32_t>& generated,
                   uint64_t position) {
  std::vector<long double> l(logits.begin(), logits.begin() + static_cast<ptrdiff_t>(vocabulary));
  for (auto [id, bias] : params.logit_bias) l[static_cast<size_t>(id)] += bias;
  for (size_t id = 0; id < vocabulary; ++id) {
    const auto in_prompt = std::count(prompt.begin(), prompt.end(), static_cast<int32_t>(id));
    const auto times = std::count(generated.begin(), generated.end(), static_cast<int32_t>(id));
    if (in_prompt + times > 0) {
      l[id] = l[id] > 0 ? l[id] / params.repeat_penalty : l[id] * params.repeat_penalty;
    }
    if (times > 0)
      l[id] -= static_cast<double>(times) * params.frequency_penalty + params.presence_penalty;
  }
  std::vector<size_t> ranked(vocabulary);
  std::iota(ranked.begin(), ranked.end(), size_t{0});
  std::erase_if(ranked, [&](size_t id) { return std::isinf(l[id]); });
  std::stable_sort(ranked.begin(), ranked.end(), [&](size_t a, size_t b) { return l[a] > l[b]; });
  if (params.temperature == 0) return static_cast<int32_t>(ranked[0]);
  if (params.top_k > 0) {
    ranked.resize(std::min(ranked.size(), static_cast<size_t>(params.top_k)));
  }
  std::vector<long double> w;
  w.reserve(ranked.size());
  for (size_t id : ranked) w.push_back(std::exp((l[id] - l[ranked[0]]) / params.temperature));
  const auto total = [&] { return std::accumulate(w.begin(), w.end(), 0.0L); };
  if (params.top_p < 1) {
    const long double threshold = params.top_p * total();
    long double sum = 0;
    size_t n = 0;
    while (n < w.size()) {
      sum += w[n++];
      if (sum >= threshold) break;
    }
    w.resize(n);
  }
  while (w.back() < params.min_p) w.pop_back();
  const long double threshold = UniformAt(params.seed, position) * total();
  long double sum = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    sum += w[i];
    if (sum > threshold) return static_cast<int32_t>(ranked[i]);
  }
  return -1;
}

Sampler Make(const SamplingParams& params, int32_t vocabulary) {
  auto sampler = Sampler::Create(params, vocabulary);
  PICCHIO_CHECK(sampler.has_value());
  return std::move(sampler).value();
}

int32_t SampleOnce(const SamplingParams& params, const std::vector<float>& logits,
                   uint64_t position = 0) {
  auto token = Make(params, static_cast<int32_t>(logits.size())).Sample(logits, position);
  PICCHIO_CHECK(token.has_value());
  return *token;
}

TEST(Sampler, EqualsTheBruteForce) {
  Noise noise(7);
  const auto pick = [&](std::initializer_list<double> values) {
    return values.begin()[noise.Below(values.size())];
  };
  std::map<int32_t, int> drawn;
  for (int round = 0; round < 600; ++round) {
    const size_t rows = 1 + noise.Below(round % 5 == 0 ? 20'000 : 700);
    const size_t vocabulary = rows - noise.Below(std::min<size_t>(rows, 20));
    const double spread = pick({0.01, 1, 4, 30});
    const double step = pick({0, 0, 0.5});  // Steps of 0.5 make many equal logits.
    std::vector<float> logits(rows);
    for (float& x : logits) {
      double value = spread * (noise.Unit() + noise.Unit() + noise.Unit() - 1.5);
      if (step > 0) value = std::round(value / step) * step;
      x = static_cast<float>(value);
    }
    SamplingParams params;
    params.temperature = pick({0, 0.2, 0.7, 1, 1.5});
    params.top_k = static_cast<int64_t>(pick({0, 0, 1, 5, 40, 1e9}));
    params.top_p = pick({1, 1, 0.95, 0.5, 0});
    params.min_p = pick({0, 0, 0.05, 0.4});
    params.repeat_penalty = pick({1, 1.1, 0.8});
    params.frequency_penalty = pick({0, 0.3, -0.2});
    params.presence_penalty = pick({0, 0.5});
    params.seed = noise.Below(5);
    const auto any_id = [&] { return static_cast<int32_t>(noise.Below(vocabulary)); };
    // Never id 0, so that something is left.
    for (size_t i = noise.Below(4); i > 0; --i) params.logit_bias.push_back({any_id(), 3});
    if (const int32_t id = any_id(); id > 0) params.logit_bias.push_back({id, -kInfinity});
    std::vector<int32_t> prompt(noise.Below(30));
    std::vector<int32_t> generated(noise.Below(30));
    for (int32_t& id : prompt) id = any_id();
    for (int32_t& id : generated) id = any_id();

    auto sampler = Make(params, static_cast<int32_t>(vocabulary));
    sampler.NotePrompt(prompt);
    for (int32_t id : generated) sampler.NoteGenerated(id);
    for (uint64_t position : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 40}) {
      ASSERT_OK_AND_ASSIGN(const int32_t token, sampler.Sample(logits, position));
      ASSERT_EQ(token, BruteForce(logits, vocabulary, params, prompt, generated, position))
          << "round " << round;
      ++drawn[token];
    }
  }
  EXPECT_GT(drawn.size(), 300u);  // The rounds were not all about the first few ids.
}

TEST(Sampler, GreedyTakesTheLowestOfEqualIds) {
  EXPECT_EQ(SampleOnce({.temperature = 0}, {1, 3, 2, 3, 3}), 1);
  EXPECT_EQ(SampleOnce({.temperature = 0}, {-5}), 0);
  EXPECT_EQ(SampleOnce({.temperature = 0, .logit_bias = {{4, 0.5f}}}, {1, 3, 2, 3, 3}), 4);
}

TEST(Sampler, PaddingRowsAreNeverDrawn) {
  const std::vector<float> logits = {0, 1, 2, 99, 99};
  auto greedy = Make({.temperature = 0}, 3);
  EXPECT_EQ(*greedy.Sample(logits, 0), 2);
  auto hot = Make({.temperature = 100}, 3);
  for (uint64_t position = 0; position < 1000; ++position) {
    EXPECT_LT(*hot.Sample(logits, position), 3);
  }
  // A prompt may hold ids of the padding, or ids that are not: they change nothing.
  greedy.NotePrompt(std::vector<int32_t>{4, 1000, -1});
  EXPECT_EQ(*greedy.Sample(logits, 0), 2);
}

// The frequencies of 20,000 draws against the probabilities by hand, at five standard deviations.
TEST(Sampler, DrawsByProbability) {
  const std::vector<float> logits = {std::log(1.0f), std::log(5.0f), std::log(3.0f),
                                     std::log(1.0f)};
  const std::vector<double> expected = {0.1, 0.5, 0.3, 0.1};
  auto sampler = Make({.seed = 11}, 4);
  std::vector<int> counts(4);
  constexpr int kDraws = 20'000;
  for (uint64_t position = 0; position < kDraws; ++position) {
    ++counts[static_cast<size_t>(*sampler.Sample(logits, position))];
  }
  for (size_t i = 0; i < 4; ++i) {
    const double deviation = std::sqrt(kDraws * expected[i] * (1 - expected[i]));
    EXPECT_NEAR(counts[i], kDraws * expected[i], 5 * deviation);
  }
}

TEST(Sampler, ExtremeLogitsAndTemperatures) {
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_EQ(SampleOnce({.temperature = 1e-300}, {1, 2, 2}), 1 + (UniformAt(0, 0) >= 0.5 ? 1 : 0));
  EXPECT_EQ(SampleOnce({}, {-kMax, kMax, -kMax}), 1);
  EXPECT_EQ(SampleOnce({.repeat_penalty = 0.01, .logit_bias = {{0, kMax}}}, {kMax, -kMax}), 0);
  EXPECT_EQ(SampleOnce({.top_p = 0}, {1, 2, 3, 2}), 2);
  EXPECT_EQ(SampleOnce({.temperature = 1e300, .min_p = 1}, {1, 1, 1}, 5),
            static_cast<int32_t>(UniformAt(0, 5) * 3));
}

TEST(Sampler, LogitsThatAreNotNumbersStopTheRun) {
  auto sampler = Make({}, 3);
  for (float bad : {std::nanf(""), kInfinity, -kInfinity}) {
    EXPECT_THAT(sampler.Sample(std::vector<float>{0, bad, 0}, 0),
                Fails(Code::kCorrupt, "the logit of token 1 is"));
  }
  EXPECT_OK(sampler.Sample(std::vector<float>{0, 0, 0, kInfinity}, 0));  // Padding.
}

TEST(Sampler, DrawsOnlyWhatAMaskAllows) {
  Noise noise(5);
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 0}, SamplingParams{}, SamplingParams{.top_k = 3},
        SamplingParams{.top_p = 0.5}, SamplingParams{.min_p = 0.5}}) {
    for (uint64_t position = 0; position < 50; ++position) {
      std::vector<float> logits(130);
      for (float& x : logits) x = static_cast<float>(noise.Unit() * 4);
      TokenMask allowed(130);
      auto banned = params;  // The same by other means.
      for (int32_t id = 0; id < 130; ++id) {
        if (noise.Below(4) == 0 || id == 129) {
          allowed.Allow(id);
        } else {
          banned.logit_bias.push_back({id, -kInfinity});
        }
      }
      auto masked = Make(params, 130);
      auto expected = Make(banned, 130);
      ASSERT_EQ(*masked.Sample(logits, position, &allowed), *expected.Sample(logits, position));
    }
  }
  TokenMask allowed(70);
  allowed.AllowAll();
  EXPECT_TRUE(allowed.Allows(69));
  allowed.Forbid(69);
  EXPECT_FALSE(allowed.Allows(69));
  EXPECT_TRUE(allowed.Allows(68));
  allowed.ForbidAll();
  auto sampler = Make({}, 70);
  EXPECT_THAT(sampler.Sample(std::vector<float>(70), 0, &allowed),
              Fails(Code::kInvalidArgument, "the constraint and logit_bias ban every token"));
}

TEST(Sampler, RefusesBadParametersAndTotalBans) {
  EXPECT_THAT(Sampler::Create({.top_k = -3}, 10), Fails(Code::kInvalidArgument, "top_k"));
  auto sampler = Make({.logit_bias = {{0, -kInfinity}, {1, -kInfinity}}}, 2);
  EXPECT_THAT(sampler.Sample(std::vector<float>{0, 0}, 0),
              Fails(Code::kInvalidArgument, "bans every token"));
  EXPECT_EQ(sampler.params().logit_bias.size(), 2u);
}

}  // namespace
}  // namespace picchio
