// The demo model through the whole engine: what quantised activations cost on text, and that
// nothing but the arithmetic decides the logits.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string_view>

#include "apps/run/engine.h"
#include "engine/token_scores.h"
#include "experts/cache_simulator.h"
#include "support/sanitized.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// A slot of the demo's cache: 55,296 bytes, rounded up.
constexpr uint64_t kDemoSlotBytes = 65536;

// The tokens of the held-out text, at most `count` of them.
std::vector<int32_t> Heldout(const Engine& engine, size_t count) {
  auto ids =
      engine.tokenizer()->Encode(ReadAll(TestData("demo/heldout.txt")), SpecialTokens::kAsText);
  EXPECT_OK(ids);
  ids->resize(std::min(ids->size(), count));
  return *ids;
}

std::unique_ptr<Engine> OpenDemo(const EngineOptions& options) {
  auto engine = Engine::Open(TestData("../../models/demo"), options);
  EXPECT_OK(engine);
  return std::move(*engine);
}

// Calls `receive` with each window of 256 tokens: where it begins, and the logits of its positions.
using WindowReceiver = std::function<void(size_t, const std::vector<std::vector<float>>&)>;
void ForEachWindow(Session& session, std::span<const int32_t> ids, const WindowReceiver& receive) {
  for (size_t begin = 0; begin < ids.size(); begin += 256) {
    const auto window = ids.subspan(begin, std::min<size_t>(256, ids.size() - begin));
    std::vector<std::vector<float>> rows;
    EXPECT_OK(session.Score(
        window, 0,
        [&](uint32_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); },
        {}));
    receive(begin, rows);
  }
}

std::vector<std::vector<float>> AllLogits(Engine& engine, std::span<const int32_t> ids) {
  auto session = engine.NewSession();
  EXPECT_OK(session);
  std::vector<std::vector<float>> all;
  ForEachWindow(*session, ids,
                [&](size_t, const auto& rows) { all.insert(all.end(), rows.begin(), rows.end()); });
  return all;
}

// One model's summed surprise and likeliest tokens over a text, window by window.
struct Scores {
  double nats = 0;
  size_t num_scored = 0;
  std::vector<size_t> argmax;  // Of every position.
  std::vector<float> margin;   // By which it leads.
};

Scores ScoresOf(Engine& engine, std::span<const int32_t> ids) {
  auto session = engine.NewSession();
  EXPECT_OK(session);
  Scores scores;
  ForEachWindow(*session, ids, [&](size_t begin, const auto& rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::vector<float>& row = rows[i];
      const auto first = std::ranges::max_element(row);
      float second = -std::numeric_limits<float>::infinity();
      for (const float& logit : row) {
        if (&logit != &*first) second = std::max(second, logit);
      }
      scores.argmax.push_back(static_cast<size_t>(first - row.begin()));
      scores.margin.push_back(*first - second);
      if (i + 1 == rows.size()) continue;
      scores.nats += NegativeLogLikelihood(row, ids[begin + i + 1]);
      ++scores.num_scored;
    }
  });
  return scores;
}

// A part of the text that takes seconds; PICCHIO_HELDOUT=all takes the whole (docs/perplexity.md
// has the figures).
#ifdef PICCHIO_SANITIZED
constexpr size_t kHeldoutTokens = 2048;
#else
constexpr size_t kHeldoutTokens = 8192;
#endif

TEST(DemoModel, QuantisedActivationsCostLittle) {
  const char* wanted = std::getenv("PICCHIO_HELDOUT");
  const size_t num_tokens =
      wanted != nullptr && std::string_view(wanted) == "all" ? SIZE_MAX : kHeldoutTokens;
  const auto f32 = OpenDemo({.compute = Compute::kF32});
  const auto int8 = OpenDemo({.compute = Compute::kInt8});
  const std::vector<int32_t> ids = Heldout(*f32, num_tokens);
  ASSERT_GE(ids.size(), kHeldoutTokens);
  const Scores exact = ScoresOf(*f32, ids);
  const Scores quantised = ScoresOf(*int8, ids);
  const double mean = exact.nats / static_cast<double>(exact.num_scored);
  const double quantised_mean = quantised.nats / static_cast<double>(quantised.num_scored);
  EXPECT_NEAR(std::exp(quantised_mean - mean), 1, 0.005);

  size_t clear = 0;
  size_t equal = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (exact.margin[i] <= 0.1F) continue;
    ++clear;
    equal += exact.argmax[i] == quantised.argmax[i];
  }
  const std::string figures = fmt::format(
      "{} tokens: perplexity {:.4f} with F32 activations, {:.4f} with INT8 ones ({:+.3f} %); of {} "
      "positions with a margin over 0.1 {} have the same likeliest token ({:.3f} %)",
      ids.size(), std::exp(mean), std::exp(quantised_mean),
      100 * (std::exp(quantised_mean - mean) - 1), clear, equal,
      100 * static_cast<double>(equal) / static_cast<double>(clear));
  EXPECT_GT(clear, ids.size() / 2);
  EXPECT_GE(static_cast<double>(equal), 0.995 * static_cast<double>(clear)) << figures;
  if (wanted != nullptr) std::printf("%s\n", figures.c_str());
}

TEST(DemoModel, LogitsAreTheSameBitsWhateverRunsThem) {
  const auto reference_engine = OpenDemo({.num_threads = 1});
  const std::vector<int32_t> ids = Heldout(*reference_engine, 300);
  const auto reference = AllLogits(*reference_engine, ids);
  EngineOptions two_threads{.num_threads = 2};
  EngineOptions tiny_cache{.num_threads = 2};
  tiny_cache.memory.cache_bytes = 2 * kDemoSlotBytes;
  EngineOptions short_spans{.num_threads = 3};
  short_spans.storage.num_io_threads = 1;
  short_spans.memory.slots_per_layer = 3;
  short_spans.memory.prefill_span = 7;
  std::vector<EngineOptions> runs = {two_threads, tiny_cache, short_spans};
  // Every policy, with two slots, with fewer than a layer asks for, with some for all layers.
  for (const CachePolicy policy : kCachePolicies) {
    for (const uint64_t slots : {2, 3, 40}) {
      EngineOptions run{.num_threads = 2, .cache_policy = policy};
      run.memory.cache_bytes = slots * kDemoSlotBytes;
      runs.push_back(run);
    }
  }
  for (const EngineOptions& options : runs) {
    const auto engine = OpenDemo(options);
    const auto found = AllLogits(*engine, ids);
    ASSERT_EQ(found.size(), reference.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(std::memcmp(found[i].data(), reference[i].data(), found[i].size() * 4), 0) << i;
    }
  }
}

// A prompt of 96 positions, whose layers ask for more experts than the small caches hold, and
// single tokens: what a run counts is what its trace says it would.
TEST(DemoModel, HitsAreThoseOfTheSimulation) {
  const TemporaryFolder folder;
  for (const CachePolicy policy : kCachePolicies) {
    for (const uint32_t slots : {2, 24, 100}) {
      for (const bool apart : {false, true}) {
        EngineOptions options;
        options.num_threads = 2;
        options.cache_policy = policy;
        options.trace = folder / "trace";
        if (apart) {
          options.memory.slots_per_layer = slots;
        } else {
          options.memory.cache_bytes = slots * kDemoSlotBytes;
        }
        const auto engine = OpenDemo(options);
        const std::vector<int32_t> ids = Heldout(*engine, 112);
        ASSERT_OK_AND_ASSIGN(Session session, engine->NewSession());
        ASSERT_OK(session.Score(std::span(ids).first(96), 95, [](uint32_t, auto) {}, {}));
        for (size_t i = 96; i < ids.size(); ++i) {
          ASSERT_OK(session.Score(std::span(ids).subspan(i, 1), 0, [](uint32_t, auto) {}, {}));
        }
        ASSERT_OK(engine->FinishTrace());
        ASSERT_OK_AND_ASSIGN(const AccessTrace trace, LoadTrace(folder / "trace"));
        EXPECT_EQ(trace.header,
                  (TraceHeader{.num_layers = 4,
                               .num_experts = 32,
                               .experts_per_token = 4,
                               .num_records = 128,
                               .record_bytes = engine->experts().layout().record_bytes}));
        const CacheStats& stats = engine->experts().stats();
        EXPECT_EQ(trace.num_demands(), stats.hits + stats.misses);
        EXPECT_EQ(
            SimulateHits(trace, {.num_positions = engine->memory().num_slots,
                                 .policy = policy,
                                 .positions_per_layer = apart ? std::min<size_t>(slots, 32) : 0}),
            stats.hits)
            << CachePolicyName(policy) << ", " << slots << (apart ? " a layer" : " slots");
        EXPECT_EQ(stats.reads, stats.misses);
      }
    }
  }
}

// Counters are left, found, and used; no token depends on them, nor on damage to them.
TEST(DemoModel, AWarmStartChangesHitsAndNothingElse) {
  const TemporaryFolder folder;
  const Path model = folder / "model";
  std::filesystem::copy(TestData("../../models/demo"), model);
  std::filesystem::remove(model / kUseCountersName);
  // Not what other runs of the same model have left for their next.
  ASSERT_EQ(setenv("XDG_CACHE_HOME", folder.path().c_str(), 1), 0);
  std::vector<std::string> notices;
  EngineOptions options;
  options.num_threads = 2;
  options.memory.cache_bytes = 60 * kDemoSlotBytes;
  options.warm_start = true;
  options.notice = [&](std::string_view said) { notices.emplace_back(said); };
  std::vector<std::vector<float>> reference;
  uint64_t cold_hits = 0;
  for (const bool warm : {false, true}) {
    auto engine = Engine::Open(model, options);
    ASSERT_OK(engine);
    EXPECT_EQ((*engine)->experts().preload_total(), warm ? 60u : 0u);
    const std::vector<int32_t> ids = Heldout(**engine, 40);
    const auto logits = AllLogits(**engine, ids);
    if (!warm) {
      reference = logits;
      ASSERT_OK((*engine)->SaveUseCounters());
    }
    EXPECT_EQ(logits, reference);
    EXPECT_EQ((*engine)->experts().stats().preloaded > 0, warm);
    if (warm) {
      EXPECT_GT((*engine)->experts().stats().hits, cold_hits);
    }
    cold_hits = (*engine)->experts().stats().hits;
  }
  EXPECT_THAT(notices, testing::IsEmpty());

  std::string counters = ReadAll(model / kUseCountersName);
  counters[counters.size() / 2] ^= 1;
  WriteAll(model / kUseCountersName, counters);
  auto engine = Engine::Open(model, options);
  ASSERT_OK(engine);
  EXPECT_EQ((*engine)->experts().preload_total(), 0u);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_THAT(notices[0], testing::HasSubstr("expert-uses.txt: its checksum does not fit"));
  EXPECT_EQ(AllLogits(**engine, Heldout(**engine, 40)), reference);
}

}  // namespace
}  // namespace picchio
