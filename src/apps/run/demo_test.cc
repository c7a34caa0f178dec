// The demo model through the whole engine: what quantised activations cost on text, and that
// nothing but the arithmetic decides the logits.
#include <algorithm>
#include <cstring>

#include "apps/run/engine.h"
#include "engine/perplexity.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// The tokens of the held-out text's beginning.
std::vector<int32_t> Heldout(const Engine& engine, size_t count) {
  auto ids = engine.tokenizer()->Encode(ReadAll(TestData("demo/heldout.txt")).substr(0, count * 5),
                                        SpecialTokens::kAsText);
  EXPECT_OK(ids);
  EXPECT_GE(ids->size(), count);
  ids->resize(count);
  return *ids;
}

std::unique_ptr<Engine> OpenDemo(const EngineOptions& options) {
  auto engine = Engine::Open(TestData("../../models/demo"), options);
  EXPECT_OK(engine);
  return std::move(*engine);
}

// Logits of every position of windows of 256 tokens.
std::vector<std::vector<float>> AllLogits(Engine& engine, std::span<const int32_t> ids) {
  auto session = engine.NewSession();
  EXPECT_OK(session);
  std::vector<std::vector<float>> rows;
  for (size_t begin = 0; begin < ids.size(); begin += 256) {
    const auto window = ids.subspan(begin, std::min<size_t>(256, ids.size() - begin));
    EXPECT_OK(session->Score(
        window, 0,
        [&](uint32_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); },
        {}));
  }
  return rows;
}

TEST(DemoModel, QuantisedActivationsCostLittle) {
  const auto f32 = OpenDemo({.compute = Compute::kF32});
  const auto int8 = OpenDemo({.compute = Compute::kInt8});
  const std::vector<int32_t> ids = Heldout(*f32, 2560);
  ASSERT_OK_AND_ASSIGN(Session exact_session, f32->NewSession());
  ASSERT_OK_AND_ASSIGN(Session session, int8->NewSession());
  ASSERT_OK_AND_ASSIGN(const Perplexity exact, MeasurePerplexity(exact_session, ids, {}));
  ASSERT_OK_AND_ASSIGN(const Perplexity quantised, MeasurePerplexity(session, ids, {}));
  EXPECT_NEAR(quantised.value() / exact.value(), 1, 0.005);

  const auto reference = AllLogits(*f32, ids);
  const auto found = AllLogits(*int8, ids);
  size_t clear = 0;
  size_t equal = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    std::vector<float> sorted = reference[i];
    std::ranges::partial_sort(sorted, sorted.begin() + 2, std::greater<>());
    if (sorted[0] - sorted[1] <= 0.1F) continue;
    ++clear;
    equal += std::ranges::max_element(reference[i]) - reference[i].begin() ==
             std::ranges::max_element(found[i]) - found[i].begin();
  }
  EXPECT_GT(clear, reference.size() / 2);
  EXPECT_GE(static_cast<double>(equal), 0.995 * static_cast<double>(clear))
      << equal << " of " << clear;
}

TEST(DemoModel, LogitsAreTheSameBitsWhateverRunsThem) {
  const auto reference_engine = OpenDemo({.num_threads = 1});
  const std::vector<int32_t> ids = Heldout(*reference_engine, 300);
  const auto reference = AllLogits(*reference_engine, ids);
  EngineOptions two_threads{.num_threads = 2};
  EngineOptions tiny_cache{.num_threads = 2};
  tiny_cache.memory.cache_bytes = 2 * 65536;
  EngineOptions short_spans{.num_threads = 3, .prefill_span = 7};
  short_spans.storage.num_io_threads = 1;
  short_spans.memory.slots_per_layer = 3;
  for (const EngineOptions& options : {two_threads, tiny_cache, short_spans}) {
    const auto engine = OpenDemo(options);
    const auto found = AllLogits(*engine, ids);
    ASSERT_EQ(found.size(), reference.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(std::memcmp(found[i].data(), reference[i].data(), found[i].size() * 4), 0) << i;
    }
  }
}

}  // namespace
}  // namespace picchio
