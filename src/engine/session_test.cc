#include "engine/session.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/tiny_model_test_support.h"
#include "experts/faulty_expert_source.h"
#include "support/test_support.h"
#include "tokenizer/tokenizer_test_support.h"

namespace picchio {
namespace {

using Ids = std::vector<int32_t>;

constexpr auto kTinyVocabulary = static_cast<int32_t>(TinyModel::kVocabulary);
constexpr uint32_t kContext = 256;

Ids Prompt(size_t n) {
  Ids ids(n);
  for (size_t i = 0; i < n; ++i) ids[i] = static_cast<int32_t>((i * 37 + 11) % 256);
  return ids;
}

class SessionTest : public testing::Test {
 protected:
  static Session MakeSession(ForwardPass& forward, const ExpertCache& experts,
                             uint32_t context = kContext) {
    auto session = Session::Create(forward, experts, context);
    PICCHIO_CHECK(session.has_value());
    return std::move(session).value();
  }

  Generation Make(Ids prompt, GenerationOptions options, double temperature = 0) {
    options.sampling.temperature = temperature;
    auto generation = Generation::Create(std::move(prompt), std::move(options), kTinyVocabulary,
                                         kContext, &tokenizer_);
    PICCHIO_CHECK(generation.has_value());
    return std::move(generation).value();
  }

  // The logits behind the last of `ids`, all of them run at once in a KV cache of their own.
  static std::vector<float> LogitsBehind(TinyModel& model, const Ids& ids) {
    auto forward = model.MakeForward(ids.size());
    auto kv = KvCache::Create(model.model().config, kContext);
    PICCHIO_CHECK(kv.has_value());
    const SequenceInput input{.kv = &*kv, .tokens = ids};
    std::vector<float> logits;
    const Status status = forward->Step(std::span(&input, 1), [&](const LogitsRow& row) {
      logits.assign(row.logits.begin(), row.logits.end());
      return Status::Ok();
    });
    PICCHIO_CHECK(status.ok());
    return logits;
  }

  // A greedy continuation without KV reuse, sampler or session.
  Ids Continuation(TinyModel& model, Ids ids, size_t n) const {
    const size_t prompt = ids.size();
    while (ids.size() < prompt + n) {
      std::vector<float> logits = LogitsBehind(model, ids);
      logits.resize(static_cast<size_t>(tokenizer_.vocab_size()));
      const auto largest = std::max_element(logits.begin(), logits.end());
      ids.push_back(static_cast<int32_t>(largest - logits.begin()));
    }
    return {ids.begin() + static_cast<ptrdiff_t>(prompt), ids.end()};
  }

  static Ids Generated(const Generation& generation) {
    return {generation.generated().begin(), generation.generated().end()};
  }

  const Tokenizer tokenizer_ = [] {
    auto tokenizer = Tokenizer::Parse(TinyTokenizer().dump(), "tiny");
    PICCHIO_CHECK(tokenizer.has_value());
    return std::move(tokenizer).value();
  }();
};

TEST_F(SessionTest, GreedyEqualsRunningEverythingAnew) {
  TinyModel model;
  const Ids expected = Continuation(model, Prompt(21), 24);
  for (size_t max_rows : {1, 5, 21, 64}) {
    auto forward = model.MakeForward(max_rows);
    Session session = MakeSession(*forward, model.experts());
    Generation generation = Make(Prompt(21), {.max_tokens = 24});
    std::string text;
    RunHooks hooks;
    hooks.on_text = [&](std::string_view piece) {
      EXPECT_FALSE(piece.empty());
      text += piece;
      return Status::Ok();
    };
    ASSERT_OK_AND_ASSIGN(const RunStats stats, session.Generate(generation, hooks));
    EXPECT_EQ(Generated(generation), expected);
    EXPECT_EQ(text, tokenizer_.Decode(expected));
    EXPECT_EQ(generation.reason(), FinishReason::kMaxTokens);

    EXPECT_EQ(stats.reused_positions, 0u);
    EXPECT_EQ(stats.prompt.tokens, 21u);
    EXPECT_EQ(stats.decode.tokens, 23u);
    EXPECT_EQ(stats.prompt.step.rows, 21u);
    EXPECT_EQ(stats.decode.step.rows, 23u);
    EXPECT_EQ(stats.prompt.step.steps, (21 + max_rows - 1) / max_rows);
    EXPECT_EQ(stats.decode.cache.hits + stats.decode.cache.misses, 23u * 2 * 2);
    EXPECT_EQ(stats.decode.cache.reads, stats.decode.cache.misses);
    EXPECT_GE(stats.prompt.duration, stats.prompt.step.total);
    EXPECT_GT(stats.decode.tokens_per_second(), 0);
  }
}

TEST_F(SessionTest, LogitsOfEveryPositionInOrder) {
  TinyModel model;
  for (size_t max_rows : {4, 64}) {
    auto forward = model.MakeForward(max_rows);
    Session session = MakeSession(*forward, model.experts());
    Generation generation = Make(Prompt(10), {.max_tokens = 6});
    std::vector<std::vector<float>> rows;
    RunHooks hooks;
    hooks.on_logits = [&](uint32_t position, std::span<const float> logits) {
      EXPECT_EQ(position, rows.size());
      rows.emplace_back(logits.begin(), logits.end());
      return Status::Ok();
    };
    ASSERT_OK(session.Generate(generation, hooks));
    ASSERT_EQ(rows.size(), 10u + 6 - 1);
    for (size_t i = 0; i < rows.size(); ++i) {
      const Ids before(generation.ids().begin(), generation.ids().begin() + i + 1);
      EXPECT_EQ(rows[i], LogitsBehind(model, before)) << "position " << i;
    }
  }
}

TEST_F(SessionTest, PromptAloneWithAFullContext) {
  TinyModel model;
  auto forward = model.MakeForward();
  Session session = MakeSession(*forward, model.experts(), 10);
  ASSERT_OK_AND_ASSIGN(Generation generation,
                       Generation::Create(Prompt(10), {.max_tokens = 0}, session.vocab_size(),
                                          session.context(), nullptr));
  size_t rows = 0;
  RunHooks hooks;
  hooks.on_logits = [&](uint32_t, std::span<const float>) {
    ++rows;
    return Status::Ok();
  };
  ASSERT_OK_AND_ASSIGN(const RunStats stats, session.Generate(generation, hooks));
  EXPECT_EQ(rows, 10u);
  EXPECT_EQ(stats.prompt.tokens, 10u);
  EXPECT_EQ(stats.decode.tokens, 0u);
  EXPECT_TRUE(generation.generated().empty());
}

TEST_F(SessionTest, ProgressGrowsFromNothingToAll) {
  TinyModel model;
  auto forward = model.MakeForward(8);
  Session session = MakeSession(*forward, model.experts());
  Generation generation = Make(Prompt(20), {.max_tokens = 5});
  std::vector<double> fractions;
  RunHooks hooks;
  hooks.on_progress = [&](const PromptProgress& progress) {
    EXPECT_EQ(progress.positions_total, 20u);
    fractions.push_back(progress.fraction());
  };
  ASSERT_OK(session.Generate(generation, hooks));
  // Three spans of two layers, and the end.
  const std::vector<double> expected = {0, 4.0 / 20, 8.0 / 20, 12.0 / 20, 16.0 / 20, 18.0 / 20, 1};
  EXPECT_EQ(fractions, expected);
  EXPECT_EQ(PromptProgress{}.fraction(), 1.0);
}

TEST_F(SessionTest, SamplingDependsOnSeedAndNotOnSpans) {
  TinyModel model;
  const auto run = [&](size_t max_rows, uint64_t seed) {
    auto forward = model.MakeForward(max_rows);
    Session session = MakeSession(*forward, model.experts());
    GenerationOptions options{.max_tokens = 30};
    options.sampling.seed = seed;
    Generation generation = Make(Prompt(9), std::move(options), 5.0);
    EXPECT_OK(session.Generate(generation, {}));
    return Generated(generation);
  };
  const Ids one = run(1, 1);
  EXPECT_EQ(one, run(64, 1));
  EXPECT_NE(one, run(64, 2));
}

TEST_F(SessionTest, StopsAreSeenAtOnce) {
  TinyModel model;
  const Ids expected = Continuation(model, Prompt(12), 10);
  const int32_t stop = expected[4];
  const auto first = std::find(expected.begin(), expected.end(), stop) - expected.begin();
  auto forward = model.MakeForward();
  Session session = MakeSession(*forward, model.experts());
  Generation generation = Make(Prompt(12), {.stop_ids = {stop}});
  ASSERT_OK_AND_ASSIGN(const RunStats stats, session.Generate(generation, {}));
  EXPECT_EQ(generation.reason(), FinishReason::kStopId);
  EXPECT_EQ(Generated(generation), Ids(expected.begin(), expected.begin() + first + 1));
  EXPECT_EQ(stats.decode.tokens, static_cast<uint64_t>(first));
}

TEST_F(SessionTest, CancelledInThePromptAndUsedAgain) {
  TinyModel model;
  auto forward = model.MakeForward(8);
  const Ids expected = Continuation(model, Prompt(20), 8);
  for (int at = 0; at < 7; ++at) {
    Session session = MakeSession(*forward, model.experts());
    std::atomic<bool> cancel = false;
    int calls = 0;
    RunHooks hooks{.cancel = &cancel};
    hooks.on_progress = [&](const PromptProgress&) {
      if (calls++ == at) cancel = true;
    };
    Generation generation = Make(Prompt(20), {.max_tokens = 8});
    ASSERT_OK_AND_ASSIGN(RunStats stats, session.Generate(generation, hooks));
    EXPECT_EQ(generation.reason(), FinishReason::kCancelled);
    // The layer before which it was called still runs. After the last one a token is drawn.
    const size_t run = std::min(20, (at + 1) / 2 * 8);
    EXPECT_EQ(generation.generated().size(), run < 20 ? 0u : 1u);
    EXPECT_EQ(stats.prompt.tokens, run);

    Generation second = Make(Prompt(20), {.max_tokens = 8});
    ASSERT_OK_AND_ASSIGN(stats, session.Generate(second, {}));
    EXPECT_EQ(stats.reused_positions, std::min<size_t>(19, run));
    EXPECT_EQ(Generated(second), expected);
  }
}

// The logits of a long prompt take long: whoever stops the run does not wait for all of them.
TEST_F(SessionTest, CancelledWithinTheHead) {
  TinyModel model;
  auto forward = model.MakeForward(64);
  Session session = MakeSession(*forward, model.experts());
  std::atomic<bool> cancel = false;
  size_t rows = 0;
  RunHooks hooks{.cancel = &cancel};
  hooks.on_logits = [&](uint32_t position, std::span<const float>) {
    ++rows;
    if (position == 3) cancel = true;
    return Status::Ok();
  };
  Generation generation = Make(Prompt(60), {.max_tokens = 3});
  ASSERT_OK_AND_ASSIGN(const RunStats stats, session.Generate(generation, hooks));
  EXPECT_EQ(generation.reason(), FinishReason::kCancelled);
  EXPECT_EQ(rows, 16u) << "those that were computed together";
  EXPECT_EQ(stats.prompt.tokens, 0u);
}

TEST_F(SessionTest, CancelledInTheAnswerShowsWhatWasHeldBack) {
  TinyModel model;
  auto forward = model.MakeForward(8);
  Session session = MakeSession(*forward, model.experts());
  // The whole answer might begin this string.
  const Ids expected = Continuation(model, Prompt(20), 8);
  std::atomic<bool> cancel = false;
  std::string text;
  int rows = 0;
  RunHooks hooks{.cancel = &cancel};
  hooks.on_text = [&](std::string_view piece) {
    text += piece;
    return Status::Ok();
  };
  hooks.on_logits = [&](uint32_t position, std::span<const float>) {
    if (position == 22) cancel = true;
    ++rows;
    return Status::Ok();
  };
  Generation generation =
      Make(Prompt(20), {.max_tokens = 8, .stop_strings = {tokenizer_.Decode(expected)}});
  ASSERT_OK(session.Generate(generation, hooks));
  EXPECT_EQ(generation.reason(), FinishReason::kCancelled);
  EXPECT_EQ(rows, 23);
  EXPECT_EQ(Generated(generation), Ids(expected.begin(), expected.begin() + 4));
  EXPECT_EQ(text, tokenizer_.Decode(generation.generated()));
}

TEST_F(SessionTest, ReusesWhatTwoPromptsShare) {
  TinyModel model;
  auto forward = model.MakeForward(8);
  Session session = MakeSession(*forward, model.experts());
  Generation first = Make(Prompt(20), {.max_tokens = 5});
  ASSERT_OK(session.Generate(first, {}));

  // The next turn: all that was said, and more. The last token drawn has not been run.
  Ids longer(first.ids().begin(), first.ids().end());
  longer.insert(longer.end(), {9, 8, 7});
  Generation second = Make(longer, {.max_tokens = 5});
  ASSERT_OK_AND_ASSIGN(RunStats stats, session.Generate(second, {}));
  EXPECT_EQ(stats.reused_positions, 24u);
  EXPECT_EQ(stats.prompt.tokens, 4u);
  EXPECT_EQ(Generated(second), Continuation(model, longer, 5));

  // Another ending.
  Ids other = Prompt(20);
  other[15] ^= 1;
  Generation third = Make(other, {.max_tokens = 5});
  ASSERT_OK_AND_ASSIGN(stats, session.Generate(third, {}));
  EXPECT_EQ(stats.reused_positions, 15u);
  EXPECT_EQ(Generated(third), Continuation(model, other, 5));

  // The same once more: only the last token is run for its logits.
  Generation again = Make(other, {.max_tokens = 5});
  ASSERT_OK_AND_ASSIGN(stats, session.Generate(again, {}));
  EXPECT_EQ(stats.reused_positions, 19u);
  EXPECT_EQ(Generated(again), Generated(third));
}

// A long answer, and then another prompt that shares the first one's beginning.
TEST_F(SessionTest, ASlidingWindowThatIsGoneComesBackFromTheTurn) {
  TinyModel model(/*sliding_window=*/16);
  auto forward = model.MakeForward(64);
  Session session = MakeSession(*forward, model.experts());
  Generation first = Make(Prompt(20), {.max_tokens = 200});
  ASSERT_OK(session.Generate(first, {}));
  Ids other = Prompt(20);
  other.push_back(5);
  Generation second = Make(other, {.max_tokens = 5});
  ASSERT_OK_AND_ASSIGN(RunStats stats, session.Generate(second, {}));
  EXPECT_EQ(stats.reused_positions, 19u);
  EXPECT_EQ(Generated(second), Continuation(model, other, 5));
  // The same once more: nothing is run but the last token.
  Generation again = Make(other, {.max_tokens = 200});
  ASSERT_OK_AND_ASSIGN(stats, session.Generate(again, {}));
  EXPECT_EQ(stats.reused_positions, 20u);
  EXPECT_EQ(stats.prompt.tokens, 1u);
  // What they share ends before any checkpoint, and behind the ring.
  Generation third = Make(Prompt(10), {.max_tokens = 5});
  ASSERT_OK_AND_ASSIGN(stats, session.Generate(third, {}));
  EXPECT_EQ(stats.reused_positions, 0u);
  EXPECT_EQ(Generated(third), Continuation(model, Prompt(10), 5));
}

// A span that is longer than the ring has overwritten the windows when it is stopped.
TEST_F(SessionTest, ALongSpanThatWasStoppedIsGoneBackBefore) {
  TinyModel model(/*sliding_window=*/16);
  auto forward = model.MakeForward(140);
  Session session = MakeSession(*forward, model.experts());
  Generation first = Make(Prompt(30), {.max_tokens = 1});
  ASSERT_OK(session.Generate(first, {}));
  std::atomic<bool> cancel = false;
  RunHooks hooks{.cancel = &cancel};
  hooks.on_progress = [&](const PromptProgress&) { cancel = true; };  // One layer still runs.
  Generation stopped = Make(Prompt(200), {.max_tokens = 5});
  ASSERT_OK(session.Generate(stopped, hooks));
  EXPECT_EQ(stopped.reason(), FinishReason::kCancelled);
  Generation second = Make(Prompt(200), {.max_tokens = 5});
  ASSERT_OK_AND_ASSIGN(const RunStats stats, session.Generate(second, {}));
  EXPECT_EQ(stats.reused_positions, 30u);
  EXPECT_EQ(Generated(second), Continuation(model, Prompt(200), 5));
}

TEST_F(SessionTest, AFailingSourceStopsTheRunAndNothingElse) {
  TinyModel model;
  const Ids expected = Continuation(model, Prompt(20), 8);
  for (const Code code : {Code::kIoError, Code::kCancelled}) {
    for (const uint64_t read : {uint64_t{0}, uint64_t{9}, uint64_t{40}}) {
      auto cache = TinyModel::MakeCache(std::make_unique<FaultyExpertSource>(
          model.MakeSource(), FaultPlan{.fail_reads = {{read, code}}}));
      auto forward = model.MakeForward(*cache, 8);
      Session session = MakeSession(*forward, *cache);
      std::atomic<bool> cancel = false;
      Generation generation = Make(Prompt(20), {.max_tokens = 8});
      EXPECT_THAT(session.Generate(generation, {.cancel = &cancel}), Fails(code, "expert"));
      EXPECT_FALSE(generation.finished());
      // What it drew before is right.
      const Ids drawn = Generated(generation);
      EXPECT_EQ(drawn,
                Ids(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(drawn.size())));
      Generation second = Make(Prompt(20), {.max_tokens = 8});
      ASSERT_OK(session.Generate(second, {}));
      EXPECT_EQ(Generated(second), expected);
    }
  }
}

TEST_F(SessionTest, FailuresOfTheReceiverAndOfTheContextAreHandedOn) {
  TinyModel model;
  auto forward = model.MakeForward();
  Session session = MakeSession(*forward, model.experts(), 12);
  Generation generation = Make(Prompt(10), {.max_tokens = 5});
  RunHooks hooks;
  hooks.on_logits = [](uint32_t, std::span<const float>) {
    return Error(Code::kIoError, "the disk is full");
  };
  EXPECT_THAT(session.Generate(generation, hooks), Fails(Code::kIoError, "the disk is full"));
  // A generation for a longer context than the session's.
  Generation too_long = Make(Prompt(10), {.max_tokens = 5});
  EXPECT_THAT(session.Generate(too_long, {}), Fails(Code::kInvalidArgument, "context"));
  EXPECT_EQ(too_long.generated().size(), 3u);
  EXPECT_THAT(Session::Create(*forward, model.experts(), 0),
              Fails(Code::kInvalidArgument, "context"));
}

TEST_F(SessionTest, ScoreHandsOnTheLogitsAsked) {
  TinyModel model;
  auto forward = model.MakeForward(4);
  Session session = MakeSession(*forward, model.experts());
  const Ids ids = Prompt(13);
  for (const size_t first : {0u, 5u, 7u, 8u, 12u}) {
    std::vector<uint32_t> positions;
    std::vector<float> last;
    ASSERT_OK_AND_ASSIGN(const PhaseStats stats,
                         session.Score(ids, first,
                                       [&](uint32_t position, std::span<const float> logits) {
                                         positions.push_back(position);
                                         last.assign(logits.begin(), logits.end());
                                       },
                                       {}));
    ASSERT_EQ(positions.size(), 13u - first);
    EXPECT_EQ(positions.front(), first);
    EXPECT_EQ(positions.back(), 12u);
    EXPECT_EQ(last, LogitsBehind(model, ids));
    EXPECT_EQ(stats.tokens, 13u);
  }
}

// A reader of the text who has gone ends the run: nothing is computed for nobody.
TEST_F(SessionTest, TextThatCannotBeHandedOutEndsTheRun) {
  TinyModel model;
  auto forward = model.MakeForward(8);
  Session session = MakeSession(*forward, model.experts());
  Generation generation = Make(Prompt(21), {.max_tokens = 24});
  size_t pieces = 0;
  RunHooks hooks;
  hooks.on_text = [&](std::string_view) {
    return ++pieces < 3 ? Status::Ok() : Error(Code::kIoError, "gone");
  };
  EXPECT_THAT(session.Generate(generation, hooks), Fails(Code::kIoError, "gone"));
  EXPECT_EQ(pieces, 3u);
  EXPECT_LT(generation.generated().size(), 24u);
}

}  // namespace
}  // namespace picchio
