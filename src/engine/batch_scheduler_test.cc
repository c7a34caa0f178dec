#include "engine/batch_scheduler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/batch_scheduler_test_support.h"

namespace picchio {
namespace {

INSTANTIATE_TEST_SUITE_P(Fixtures, BatchSchedulerTest,
                         testing::Values("qwen3_moe_tiny", "gpt_oss_tiny"),
                         [](const auto& param_info) { return param_info.param; });

TEST_P(BatchSchedulerTest, EightAtOnceAreAsEachAlone) {
  std::vector<ServedRequest> requests;
  for (const uint32_t length : {1, 3, 150, 40, 200, 17, 90, 5}) {
    GenerationOptions options = Greedy(12);
    options.top_logprobs = 512;  // All there are: every bit of the logits.
    if (length % 2 == 1) {
      options.sampling = {.temperature = 1.5, .frequency_penalty = 1, .presence_penalty = 0.5};
      options.sampling.seed = length;
    }
    requests.push_back(RequestOf(NoisePrompt(length, length), options));
  }
  for (const size_t max_rows : {size_t{2}, size_t{5}, size_t{160}}) {
    const TestEngine engine = NewEngine(max_rows);
    const auto scheduler = NewScheduler(engine, Served(8));
    std::vector<Answers> answers(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      ASSERT_OK(scheduler->Submit(requests[i], answers[i].sink()));
    }
    EXPECT_EQ(scheduler->stats().queued, 8u);
    scheduler->RunUntilIdle();
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "request " << i << ", steps of " << max_rows);
      ExpectAsAlone(answers[i][0], requests[i]);
    }
    const SchedulerStats stats = scheduler->stats();
    EXPECT_EQ(stats.completed, 8u);
    EXPECT_EQ(stats.running + stats.queued, 0u);
    EXPECT_EQ(stats.running_kv_bytes, 0u);
    EXPECT_EQ(stats.generated_tokens, 8u * 12);
    EXPECT_EQ(stats.step.rows, stats.prompt_tokens + 8 * 11) << "nothing was run twice";
  }
}

// Requests that share beginnings come and go at random, some in the middle of a layer; there is
// KV memory for three of the longest.
TEST_P(BatchSchedulerTest, RandomArrivalsAndCancels) {
  std::mt19937 random(7);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  struct One {
    ServedRequest request;
    RequestId id = 0;
    bool cancelled = false;
    Answers answers;
  };
  for (const size_t max_rows : {size_t{3}, size_t{24}, size_t{300}}) {
    const TestEngine engine = NewEngine(max_rows);
    std::vector<std::unique_ptr<One>> all;
    BatchScheduler* to_cancel = nullptr;
    const auto cancel_one = [&] {
      One& one = *all[below(static_cast<uint32_t>(all.size()))];
      if (one.answers.over()) return;
      one.cancelled = true;
      to_cancel->Cancel(one.id);
    };
    BatchScheduler::Options options = Served(6);
    options.kv_bytes = 3 * KvBytes(kServedContext);
    options.between_layers = [&] {
      if (below(60) == 0) cancel_one();
    };
    const auto scheduler = NewScheduler(engine, options);
    to_cancel = scheduler.get();
    size_t arrivals = 24;
    while (true) {
      if (arrivals > 0 && below(3) == 0) {
        --arrivals;
        // Two families, each with a beginning that is longer than any window.
        std::vector<int32_t> prompt = NoisePrompt(180, below(2));
        prompt.resize(20 + below(160));
        const std::vector<int32_t> own = NoisePrompt(1 + below(40), 100 + below(3));
        prompt.insert(prompt.end(), own.begin(), own.end());
        auto one = std::make_unique<One>();
        GenerationOptions greedy = Greedy(1 + below(30));
        greedy.top_logprobs = 512;
        one->request = RequestOf(std::move(prompt), greedy);
        ASSERT_OK_AND_ASSIGN(one->id, scheduler->Submit(one->request, one->answers.sink()));
        all.push_back(std::move(one));
      }
      const bool ran = scheduler->RunStep();
      const SchedulerStats stats = scheduler->stats();
      ASSERT_LE(stats.running_kv_bytes + stats.cached_kv_bytes, options.kv_bytes);
      ASSERT_LE(stats.running, 6u);
      if (!ran && arrivals == 0) break;
    }
    size_t num_cancelled = 0;
    for (const auto& one : all) {
      ASSERT_TRUE(one->answers.over());
      const Answer& answer = one->answers[0];
      if (answer.end->reason == FinishReason::kCancelled) {
        EXPECT_TRUE(one->cancelled);
        ++num_cancelled;
        Answer expected = Alone(one->request);
        ASSERT_LE(answer.ids.size(), expected.ids.size());
        expected.ids.resize(answer.ids.size());
        EXPECT_EQ(answer.ids, expected.ids);
      } else {
        ExpectAsAlone(answer, one->request);
      }
    }
    const SchedulerStats stats = scheduler->stats();
    EXPECT_EQ(stats.stopped, num_cancelled);
    EXPECT_EQ(stats.completed, 24 - num_cancelled);
    EXPECT_GT(num_cancelled, 0u);
    EXPECT_GT(stats.reused_tokens, 0u);
    EXPECT_LT(stats.reused_tokens, stats.prompt_tokens);
  }
}

TEST_P(BatchSchedulerTest, WhoIsCancelledLeavesBeforeTheNextLayer) {
  const TestEngine engine = NewEngine(300);
  BatchScheduler* scheduler = nullptr;
  RequestId leaving = 0;
  bool cancel = false;
  size_t layers = 0;
  BatchScheduler::Options options = Served(3);
  options.between_layers = [&] {
    if (++layers == 2 && cancel) scheduler->Cancel(leaving);
  };
  const auto owned = NewScheduler(engine, options);
  scheduler = owned.get();
  const ServedRequest stays = RequestOf(NoisePrompt(30, 1), Greedy(10));
  const ServedRequest leaves = RequestOf(NoisePrompt(250, 2), Greedy(10));
  Answers staying;
  Answers gone;
  ASSERT_OK(scheduler->Submit(stays, staying.sink()));
  ASSERT_OK_AND_ASSIGN(leaving, scheduler->Submit(leaves, gone.sink()));
  cancel = true;
  ASSERT_TRUE(scheduler->RunStep());
  EXPECT_EQ(layers, fixture_.config.num_hidden_layers) << "no layer was run again";
  EXPECT_EQ(staying[0].ids.size(), 1u) << "the other was served by the same step";
  EXPECT_TRUE(gone[0].ids.empty());
  scheduler->RunUntilIdle();
  EXPECT_EQ(gone[0].end->reason, FinishReason::kCancelled);
  EXPECT_OK(gone[0].end->status);
  ExpectAsAlone(staying[0], stays);
  // All that were under way leave: the step ends there.
  layers = 0;
  Answers before;
  Answers again;
  ASSERT_OK_AND_ASSIGN(leaving, scheduler->Submit(leaves, before.sink()));
  ASSERT_OK_AND_ASSIGN(leaving, scheduler->Submit(leaves, again.sink()));
  scheduler->Cancel(leaving - 1);
  scheduler->RunUntilIdle();
  EXPECT_EQ(again[0].end->reason, FinishReason::kCancelled);
  EXPECT_EQ(layers, 2u);
  scheduler->Cancel(leaving);  // It is over: nothing happens.
  scheduler->Cancel(12345);
  EXPECT_EQ(scheduler->stats().stopped, 3u);
}

// One expert cannot be read, and what another yields is not a number: who meets either fails, in
// words, as alone; nobody else does.
TEST_P(BatchSchedulerTest, WhoFailsFailsAlone) {
  ExpertRecords records = records_;
  const int32_t last_layer = static_cast<int32_t>(fixture_.config.num_hidden_layers) - 1;
  ASSERT_EQ(records.records.erase(ExpertKey{last_layer, 1}), 1u);
  const float not_a_number = std::nanf("");
  std::memcpy(records.records.at({last_layer, 2}).data() + records.layout.gate_up_scales.offset,
              &not_a_number, sizeof(not_a_number));
  constexpr size_t kRequests = 24;
  const TestEngine alone = TestEngine::Make(fixture_, records, EngineOptions(64));
  std::vector<ServedRequest> requests;
  for (uint32_t i = 0; i < kRequests; ++i) {
    requests.push_back(RequestOf(NoisePrompt(1 + i % 2, i), Greedy(1 + i % 3)));
  }
  const TestEngine engine = TestEngine::Make(fixture_, records, EngineOptions(64));
  const auto scheduler = NewScheduler(engine, Served(kRequests));
  std::vector<Answers> answers(kRequests);
  for (size_t i = 0; i < kRequests; ++i) {
    ASSERT_OK(scheduler->Submit(requests[i], answers[i].sink()));
  }
  scheduler->RunUntilIdle();
  std::map<Code, int> codes;
  for (size_t i = 0; i < kRequests; ++i) {
    const Answer expected = AloneOn(alone, requests[i]);
    const Answer& answer = answers[i][0];
    EXPECT_EQ(answer.ids, expected.ids) << "request " << i;
    EXPECT_EQ(answer.end->status.ToString(), expected.end->status.ToString());
    EXPECT_EQ(answer.end->reason,
              answer.end->status.ok() ? FinishReason::kMaxTokens : FinishReason::kFailed);
    ++codes[answer.end->status.code()];
  }
  EXPECT_GE(codes[Code::kOk], 1);
  EXPECT_GE(codes[Code::kNotFound], 1);
  EXPECT_GE(codes[Code::kCorrupt], 1);
  EXPECT_EQ(scheduler->stats().completed, static_cast<uint64_t>(codes[Code::kOk]));
  EXPECT_EQ(scheduler->stats().running_kv_bytes, 0u);
}

TEST_P(BatchSchedulerTest, ChoicesShareOnePassOfThePrompt) {
  const TestEngine engine = NewEngine(40);
  const auto scheduler = NewScheduler(engine, Served(5));
  ServedRequest request{.prompt = NoisePrompt(100, 3)};
  request.choices.clear();
  for (uint64_t seed = 0; seed < 4; ++seed) {
    GenerationOptions options{.max_tokens = 3 + 4 * seed, .top_logprobs = 512};
    options.sampling.seed = seed;
    request.choices.push_back(options);
  }
  request.choices[2].constraint = [](std::span<const int32_t> generated, TokenMask& allowed) {
    allowed.Allow(static_cast<int32_t>(generated.size()));
    allowed.Allow(static_cast<int32_t>(generated.size()) + 1);
    return Status::Ok();
  };
  request.choices.push_back({.max_tokens = 0});
  Answers answers(5);
  ASSERT_OK(scheduler->Submit(request, answers.sink()));
  scheduler->RunUntilIdle();
  for (size_t i = 0; i < 4; ++i) ExpectAsAlone(answers[i], request, i);
  EXPECT_NE(answers[0].ids, std::vector(answers[1].ids.begin(), answers[1].ids.begin() + 3));
  EXPECT_TRUE(answers[4].ids.empty());
  EXPECT_EQ(answers[4].end->reason, FinishReason::kMaxTokens);
  EXPECT_EQ(scheduler->stats().step.rows, 100u + 2 + 6 + 10 + 14);
  // The first may be the one that draws nothing, or that fails.
  std::swap(request.choices[0], request.choices[4]);
  request.choices[1].constraint = [](std::span<const int32_t>, TokenMask&) {
    return Error(Code::kUnsupported, "no such grammar");
  };
  Answers again(5);
  ASSERT_OK(scheduler->Submit(request, again.sink()));
  scheduler->RunUntilIdle();
  EXPECT_THAT(again[1].end->status, Fails(Code::kUnsupported, "no such grammar"));
  EXPECT_EQ(again[1].end->reason, FinishReason::kFailed);
  for (const size_t i : {2u, 3u, 4u}) ExpectAsAlone(again[i], request, i);
  EXPECT_EQ(again[2].end->reused_tokens, 99u);
  EXPECT_EQ(scheduler->stats().running_kv_bytes, 0u);
}

// A conversation, a second answer to its first turn, and little memory.
TEST_P(BatchSchedulerTest, TurnsGoOnWhereTheLastOneEnded) {
  for (const uint64_t contexts : {1, 3}) {
    const TestEngine engine = NewEngine(40);
    BatchScheduler::Options options = Served(1);
    options.kv_bytes = contexts * KvBytes(kServedContext);
    const auto scheduler = NewScheduler(engine, options);
    const auto ask = [&](const std::vector<int32_t>& prompt) {
      GenerationOptions greedy = Greedy(20);
      greedy.top_logprobs = 512;
      const ServedRequest request = RequestOf(prompt, greedy);
      Answers answers;
      EXPECT_OK(scheduler->Submit(request, answers.sink()));
      scheduler->RunUntilIdle();
      ExpectAsAlone(answers[0], request);
      EXPECT_LE(scheduler->stats().cached_kv_bytes, options.kv_bytes);
      return answers[0];
    };
    std::vector<int32_t> first = NoisePrompt(150, 5);
    const Answer answer = ask(first);
    EXPECT_EQ(answer.end->reused_tokens, 0u);
    std::vector<int32_t> second = first;
    second.insert(second.end(), answer.ids.begin(), answer.ids.end());
    const std::vector<int32_t> more = NoisePrompt(50, 6);
    second.insert(second.end(), more.begin(), more.end());
    EXPECT_EQ(ask(second).end->reused_tokens, 150u + 19);
    EXPECT_EQ(ask(second).end->reused_tokens, 150u + 20 + 50 - 1) << "the same once more";
    EXPECT_EQ(ask(first).end->reused_tokens, 149u);
    if (contexts == 3) {
      // Both are still there.
      EXPECT_EQ(ask(second).end->reused_tokens, 150u + 20 + 50 - 1);
    }
  }
}

TEST_P(BatchSchedulerTest, NobodyWaitsForALongPrompt) {
  const TestEngine engine = NewEngine(40);
  const auto scheduler = NewScheduler(engine, Served(3));
  Answers running;
  ASSERT_OK(scheduler->Submit(RequestOf(NoisePrompt(4, 1), Greedy(100)), running.sink()));
  ASSERT_TRUE(scheduler->RunStep());
  Answers late;
  Answers small;
  ASSERT_OK(scheduler->Submit(RequestOf(NoisePrompt(200, 2), Greedy(2)), late.sink()));
  ASSERT_OK(scheduler->Submit(RequestOf(NoisePrompt(10, 3), Greedy(2)), small.sink()));
  size_t steps = 0;
  while (late[0].ids.empty()) {
    const uint64_t rows = engine.pass->stats().rows;
    ASSERT_TRUE(scheduler->RunStep());
    ++steps;
    EXPECT_LE(engine.pass->stats().rows - rows, 2u + 16) << "two that decode, and the span";
    EXPECT_EQ(running[0].ids.size(), 1 + steps) << "a token at each step";
  }
  EXPECT_GE(steps, 200u / 16);
  EXPECT_TRUE(small.over());
  scheduler->RunUntilIdle();
  EXPECT_TRUE(running.over() && late.over());
}

}  // namespace
}  // namespace picchio
