#include "engine/perplexity.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "engine/tiny_model_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using Ids = std::vector<int32_t>;

Ids Text(size_t n) {
  Ids ids(n);
  for (size_t i = 0; i < n; ++i) ids[i] = static_cast<int32_t>((i * i * 7 + 3 * i) % 288);
  return ids;
}

// -ln of the probability of ids.back() behind all others, by a step of its own.
long double Surprise(TinyModel& model, std::span<const int32_t> ids) {
  auto forward = model.MakeForward(64);
  auto kv = KvCache::Create(model.model().config, 64);
  PICCHIO_CHECK(kv.has_value());
  const SequenceInput input{.kv = &*kv, .tokens = ids.first(ids.size() - 1)};
  long double result = 0;
  const Status status = forward->Step(std::span(&input, 1), [&](const LogitsRow& row) {
    long double sum = 0;
    for (float logit : row.logits) sum += std::exp(static_cast<long double>(logit));
    result = std::log(sum) - row.logits[static_cast<size_t>(ids.back())];
    return Status::Ok();
  });
  PICCHIO_CHECK(status.ok());
  return result;
}

TEST(Perplexity, EqualsTheDefinition) {
  TinyModel model;
  auto forward = model.MakeForward(5);
  const Ids ids = Text(45);
  auto session = Session::Create(*forward, model.experts(), 16);
  ASSERT_OK(session);
  ASSERT_OK_AND_ASSIGN(const Perplexity result, MeasurePerplexity(*session, ids, {}));
  // Windows of 16 that start every 8: a token beyond the first 16 is predicted from the first
  // window that reaches it.
  long double sum = 0;
  for (size_t target = 1; target < ids.size(); ++target) {
    size_t begin = 0;
    while (begin + 16 <= target) begin += 8;
    sum += Surprise(model, std::span(ids).subspan(begin, target + 1 - begin));
  }
  EXPECT_EQ(result.num_tokens, 44u);
  EXPECT_NEAR(result.nats_per_token, static_cast<double>(sum / 44), 1e-10);
  EXPECT_DOUBLE_EQ(result.value(), std::exp(result.nats_per_token));
  EXPECT_EQ(result.stats.tokens, 16u + 16 + 16 + 16 + 13);
  EXPECT_EQ(result.stats.step.rows, result.stats.tokens);
  EXPECT_GT(result.stats.cache.hits + result.stats.cache.misses, 0u);
  EXPECT_GT(result.stats.tokens_per_second(), 0);

  // In one piece where it fits, whatever the span.
  auto whole = Session::Create(*forward, model.experts(), 64);
  ASSERT_OK(whole);
  ASSERT_OK_AND_ASSIGN(const Perplexity in_one, MeasurePerplexity(*whole, ids, {}));
  sum = 0;
  for (size_t target = 1; target < ids.size(); ++target) {
    sum += Surprise(model, std::span(ids).first(target + 1));
  }
  EXPECT_NEAR(in_one.nats_per_token, static_cast<double>(sum / 44), 1e-10);
  EXPECT_EQ(in_one.stats.tokens, 45u);
}

TEST(Perplexity, ProgressOverAllWindows) {
  TinyModel model;
  auto forward = model.MakeForward(8);
  auto session = Session::Create(*forward, model.experts(), 16);
  ASSERT_OK(session);
  double last = -1;
  RunHooks hooks;
  hooks.on_progress = [&](const PromptProgress& progress) {
    EXPECT_GE(progress.fraction(), last);
    last = progress.fraction();
    EXPECT_EQ(progress.positions_total, 16u + 16 + 14);
  };
  ASSERT_OK(MeasurePerplexity(*session, Text(30), hooks));
  EXPECT_EQ(last, 1.0);
}

// An id is scored by the row before it, in a span that it may not be part of.
TEST(Perplexity, IdsAreCheckedBeforeAnyStep) {
  TinyModel model;
  auto forward = model.MakeForward(1);
  auto session = Session::Create(*forward, model.experts(), 16);
  ASSERT_OK(session);
  bool stepped = false;
  RunHooks hooks;
  hooks.on_progress = [&](const PromptProgress&) { stepped = true; };
  const int32_t vocabulary = session->vocab_size();
  for (const int32_t bad : {vocabulary, -1, std::numeric_limits<int32_t>::max()}) {
    EXPECT_THAT(MeasurePerplexity(*session, Ids{1, 2, 3, bad}, hooks),
                Fails(Code::kInvalidArgument, fmt::format("position 3 is {}", bad)));
  }
  EXPECT_FALSE(stepped);
  ASSERT_OK(MeasurePerplexity(*session, Ids{1, 2, 3, vocabulary - 1}, hooks));
  EXPECT_TRUE(stepped);
}

TEST(Perplexity, Refusals) {
  TinyModel model;
  auto forward = model.MakeForward(8);
  auto session = Session::Create(*forward, model.experts(), 16);
  ASSERT_OK(session);
  EXPECT_THAT(MeasurePerplexity(*session, {}, {}), Fails(Code::kInvalidArgument, "0 tokens"));
  EXPECT_THAT(MeasurePerplexity(*session, Text(1), {}), Fails(Code::kInvalidArgument, "1 tokens"));
  EXPECT_THAT(MeasurePerplexity(*session, Ids{1, 2, 999}, {}),
              Fails(Code::kInvalidArgument, "999"));
  const std::atomic<bool> cancel = true;
  EXPECT_THAT(MeasurePerplexity(*session, Text(30), {.cancel = &cancel}),
              Fails(Code::kCancelled, "stopped"));
  auto narrow = Session::Create(*forward, model.experts(), 1);
  ASSERT_OK(narrow);
  EXPECT_THAT(MeasurePerplexity(*narrow, Text(30), {}),
              Fails(Code::kInvalidArgument, "the context is 1"));
}

}  // namespace
}  // namespace picchio
