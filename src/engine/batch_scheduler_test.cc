#include "engine/batch_scheduler.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/session.h"
#include "model/fixture_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

constexpr uint32_t kServedContext = 320;

std::vector<int32_t> NoisePrompt(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % 512);
  return ids;
}

GenerationOptions Greedy(uint64_t max_tokens) {
  GenerationOptions options{.max_tokens = max_tokens};
  options.sampling.temperature = 0;
  return options;
}

ServedRequest RequestOf(std::vector<int32_t> prompt, GenerationOptions options) {
  ServedRequest request{.prompt = std::move(prompt)};
  request.choices = {std::move(options)};
  return request;
}

// What a request's events said, choice by choice.
struct Answer {
  std::vector<int32_t> ids;
  std::vector<std::vector<float>> logits;  // Behind which each was drawn, where asked for.
  std::optional<GenerationEnd> end;
};

class Answers {
 public:
  explicit Answers(size_t choices = 1) : choices_(choices) {}

  EventSink sink() {
    return [this](GenerationEvent event) {
      ASSERT_LT(event.choice, choices_.size());
      Answer& answer = choices_[event.choice];
      EXPECT_FALSE(answer.end.has_value()) << "an event after the end";
      if (event.token.has_value()) answer.ids.push_back(*event.token);
      if (event.logprobs.has_value()) {
        std::vector<float>& row = answer.logits.emplace_back(event.logprobs->top.size());
        for (const TokenLogprob& one : event.logprobs->top) {
          row[static_cast<size_t>(one.id)] = one.logit;
        }
      }
      answer.end = std::move(event.end);
      num_ended_ += answer.end.has_value() ? 1 : 0;
      EXPECT_EQ(event.last, num_ended_ == choices_.size());
    };
  }

  const Answer& operator[](size_t choice) const { return choices_[choice]; }
  bool over() const { return num_ended_ == choices_.size(); }

 private:
  std::vector<Answer> choices_;
  size_t num_ended_ = 0;
};

class BatchSchedulerTest : public testing::TestWithParam<std::string> {
 protected:
  static TestEngine::Options EngineOptions(size_t max_rows) {
    // Fewer slots than a step has experts: they come and go.
    return {.num_slots = 6, .max_rows = max_rows, .compute = Compute::kInt8};
  }
  TestEngine NewEngine(size_t max_rows) const {
    return TestEngine::Make(fixture_, records_, EngineOptions(max_rows));
  }
  uint64_t KvBytes(uint32_t context) const { return KvCache::BytesFor(fixture_.config, context); }
  BatchScheduler::Options Served(size_t sequences) const {
    return {.context = kServedContext,
            .max_sequences = sequences,
            .max_queued = 100,
            .prefill_span = 16,
            .kv_bytes = sequences * KvBytes(kServedContext)};
  }
  static std::unique_ptr<BatchScheduler> NewScheduler(const TestEngine& engine,
                                                      BatchScheduler::Options options) {
    return BatchScheduler::Create(*engine.pass, *engine.cache, nullptr, std::move(options)).value();
  }

  // The same request alone, by a session of its own.
  static Answer AloneOn(const TestEngine& engine, const ServedRequest& request, size_t choice = 0) {
    Session session = Session::Create(*engine.pass, *engine.cache, kServedContext).value();
    Generation generation = Generation::Create(request.prompt, request.choices[choice],
                                               session.vocab_size(), kServedContext, nullptr)
                                .value();
    Answer answer;
    RunHooks hooks;
    hooks.on_logits = [&](uint32_t position, std::span<const float> row) {
      if (position + 1 >= request.prompt.size()) answer.logits.emplace_back(row.begin(), row.end());
      return Status::Ok();
    };
    const auto stats = session.Generate(generation, hooks);
    answer.ids.assign(generation.generated().begin(), generation.generated().end());
    answer.end.emplace();
    answer.end->reason = generation.reason();
    answer.end->status = stats.status();
    return answer;
  }
  Answer Alone(const ServedRequest& request, size_t choice = 0) {
    if (!alone_.has_value()) alone_.emplace(NewEngine(64));
    return AloneOn(*alone_, request, choice);
  }
  void ExpectAsAlone(const Answer& answer, const ServedRequest& request, size_t choice = 0) {
    const Answer expected = Alone(request, choice);
    ASSERT_TRUE(answer.end.has_value());
    EXPECT_OK(answer.end->status);
    EXPECT_EQ(answer.end->reason, expected.end->reason);
    EXPECT_EQ(answer.ids, expected.ids);
    EXPECT_EQ(answer.end->generated_tokens, expected.ids.size());
    EXPECT_EQ(answer.end->prompt_tokens, request.prompt.size());
    if (answer.logits.empty()) return;
    ASSERT_EQ(answer.logits.size(), answer.ids.size());
    for (size_t i = 0; i < answer.logits.size(); ++i) {
      ASSERT_EQ(answer.logits[i], expected.logits[i]) << "token " << i;
    }
  }

  const Fixture fixture_ = Fixture::Open(TestData("fixtures/" + GetParam()));
  const ExpertRecords records_ = MakeRecords(fixture_, PayloadKind::kInt4);
  std::optional<TestEngine> alone_;
};

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

TEST_P(BatchSchedulerTest, RefusesWhatItCannotServe) {
  const TestEngine engine = NewEngine(40);
  BatchScheduler::Options options = Served(4);
  options.max_queued = 2;
  options.kv_bytes = 2 * KvBytes(kServedContext);
  const auto scheduler = NewScheduler(engine, options);
  const auto submit = [&](ServedRequest request) {
    return scheduler->Submit(std::move(request), [](const GenerationEvent&) {});
  };
  EXPECT_THAT(submit(RequestOf({}, Greedy(1))), Fails(Code::kInvalidArgument, "empty"));
  EXPECT_THAT(submit(RequestOf({512}, Greedy(1))), Fails(Code::kInvalidArgument, "512"));
  EXPECT_THAT(submit(RequestOf(NoisePrompt(kServedContext + 1, 1), Greedy(1))),
              Fails(Code::kInvalidArgument, "the context holds"));
  ServedRequest many = RequestOf({1}, Greedy(1000));
  many.choices.resize(3, Greedy(1000));
  EXPECT_THAT(submit(many), Fails(Code::kInvalidArgument, "ask for 2 choices"));
  many.choices.resize(5, Greedy(1000));
  EXPECT_THAT(submit(many), Fails(Code::kInvalidArgument, "5 choices, expected 1 to 4"));
  many.choices.clear();
  EXPECT_THAT(submit(many), Fails(Code::kInvalidArgument, "0 choices"));
  GenerationOptions bad = Greedy(1);
  bad.sampling.temperature = -1;
  EXPECT_THAT(submit(RequestOf({1}, bad)), Fails(Code::kInvalidArgument, "temperature"));

  EXPECT_OK(submit(RequestOf({1}, Greedy(1))));
  EXPECT_OK(submit(RequestOf(NoisePrompt(kServedContext, 1), Greedy(0))));
  EXPECT_THAT(submit(RequestOf({1}, Greedy(1))),
              Fails(Code::kResourceExhausted, "2 requests are waiting already"));
  EXPECT_EQ(scheduler->stats().refused, 1u);
  scheduler->RunUntilIdle();
  EXPECT_OK(submit(RequestOf({1}, Greedy(1))));
  scheduler->Stop();
  EXPECT_THAT(submit(RequestOf({1}, Greedy(1))), Fails(Code::kUnavailable, "shutting down"));

  const auto create = [&](auto change) {
    BatchScheduler::Options changed = Served(1);
    change(changed);
    return BatchScheduler::Create(*engine.pass, *engine.cache, nullptr, changed).status();
  };
  EXPECT_THAT(create([](auto& o) { o.context = 0; }), Fails(Code::kInvalidArgument, "context"));
  EXPECT_THAT(create([](auto& o) { o.max_sequences = 0; }),
              Fails(Code::kInvalidArgument, "at least 1"));
  EXPECT_THAT(create([](auto& o) { o.kv_bytes -= 1; }),
              Fails(Code::kInvalidArgument, "smaller context"));
  const TestEngine narrow = NewEngine(1);
  EXPECT_THAT(BatchScheduler::Create(*narrow.pass, *narrow.cache, nullptr, Served(1)),
              Fails(Code::kInvalidArgument, "steps of 1 tokens"));
}

// A clock that goes on by a millisecond at each look.
TEST_P(BatchSchedulerTest, TimeLimitsHoldInTheQueueAndOutOfIt) {
  const TestEngine engine = NewEngine(40);
  BatchScheduler::Options options = Served(1);
  BatchScheduler::Clock::time_point now{};
  options.now = [&] { return now += std::chrono::milliseconds(1); };
  const auto scheduler = NewScheduler(engine, options);
  const auto limited = [](uint32_t seed, int milliseconds) {
    ServedRequest request = RequestOf(NoisePrompt(20, seed), Greedy(250));
    request.time_limit = std::chrono::milliseconds(milliseconds);
    return request;
  };
  Answers runs_out;
  Answers never_begins;
  Answers begins_late;
  ASSERT_OK(scheduler->Submit(limited(1, 200), runs_out.sink()));
  ASSERT_OK(scheduler->Submit(limited(2, 50), never_begins.sink()));
  ASSERT_OK(scheduler->Submit(limited(3, 1'000'000), begins_late.sink()));
  scheduler->RunUntilIdle();
  EXPECT_EQ(runs_out[0].end->reason, FinishReason::kTimeLimit);
  EXPECT_GT(runs_out[0].ids.size(), 0u);
  EXPECT_LT(runs_out[0].ids.size(), 250u);
  EXPECT_GE(runs_out[0].end->total, std::chrono::milliseconds(200));
  EXPECT_LT(runs_out[0].end->total, std::chrono::milliseconds(210));
  EXPECT_EQ(never_begins[0].end->reason, FinishReason::kTimeLimit);
  EXPECT_EQ(never_begins[0].end->queued.count(), 0);
  EXPECT_LT(never_begins[0].end->total, std::chrono::milliseconds(60));
  EXPECT_EQ(begins_late[0].end->reason, FinishReason::kMaxTokens);
  EXPECT_GT(begins_late[0].end->queued, std::chrono::milliseconds(190));
  EXPECT_GT(begins_late[0].end->first_token, begins_late[0].end->queued);
  EXPECT_EQ(scheduler->stats().stopped, 2u);
}

TEST_P(BatchSchedulerTest, StoppedItFinishesInTimeOrNot) {
  for (const int grace : {0, 100, 1'000'000}) {
    const TestEngine engine = NewEngine(40);
    BatchScheduler::Options options = Served(2);
    BatchScheduler::Clock::time_point now{};
    options.now = [&] { return now += std::chrono::milliseconds(1); };
    const auto scheduler = NewScheduler(engine, options);
    std::vector<Answers> answers(4);
    for (uint32_t i = 0; i < 4; ++i) {
      ASSERT_OK(scheduler->Submit(RequestOf(NoisePrompt(20, i), Greedy(100)), answers[i].sink()));
    }
    ASSERT_TRUE(scheduler->RunStep());
    scheduler->Stop(std::chrono::milliseconds(grace));
    scheduler->Stop(std::chrono::hours(1));  // Longer it does not get.
    scheduler->Run();
    for (const Answers& one : answers) {
      ASSERT_TRUE(one.over());
      if (grace == 1'000'000) {
        EXPECT_EQ(one[0].end->reason, FinishReason::kMaxTokens);
      } else {
        EXPECT_EQ(one[0].end->reason, FinishReason::kFailed);
        EXPECT_THAT(one[0].end->status, Fails(Code::kUnavailable, "shutting down"));
        EXPECT_LT(one[0].ids.size(), 100u);
      }
    }
    EXPECT_EQ(answers[0][0].ids.size() > 1, grace > 0);
  }
}

// Many threads ask, cancel and look at figures while one serves; then it stops in the middle.
TEST_P(BatchSchedulerTest, ManyThreads) {
  const TestEngine engine = NewEngine(12);
  BatchScheduler::Options options = Served(4);
  options.max_queued = 5;
  const auto scheduler = NewScheduler(engine, options);
  std::atomic<int> accepted = 0;
  std::atomic<int> ended = 0;
  std::atomic<int> wrong = 0;
  std::vector<ServedRequest> requests;
  std::vector<std::vector<int32_t>> expected;
  for (uint32_t i = 0; i < 3; ++i) {
    requests.push_back(RequestOf(NoisePrompt(5 + 10 * i, i), Greedy(6)));
    expected.push_back(Alone(requests.back()).ids);
  }
  const auto client = [&](uint32_t seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < 12; ++round) {
      struct Shared {
        std::mutex mutex;
        std::condition_variable over;
        bool is_over = false;
        std::vector<int32_t> ids;
        FinishReason reason = FinishReason::kNone;
      };
      const auto shared = std::make_shared<Shared>();
      const size_t which = random() % requests.size();
      const auto id = scheduler->Submit(requests[which], [&ended, shared](GenerationEvent event) {
        const std::scoped_lock lock(shared->mutex);
        if (event.token.has_value()) shared->ids.push_back(*event.token);
        if (!event.end.has_value()) return;
        ++ended;
        shared->reason = event.end->reason;
        shared->is_over = true;
        shared->over.notify_all();
      });
      if (!id.has_value()) {
        if (id.error().code() == Code::kUnavailable) return;
        if (id.error().code() != Code::kResourceExhausted) ++wrong;
        std::this_thread::yield();
        continue;
      }
      ++accepted;
      if (random() % 3 == 0) scheduler->Cancel(*id);
      if (random() % 3 == 0 && scheduler->stats().running > 4) ++wrong;
      std::unique_lock lock(shared->mutex);
      shared->over.wait(lock, [&] { return shared->is_over; });
      if (shared->reason == FinishReason::kMaxTokens && shared->ids != expected[which]) ++wrong;
    }
    if (seed == 0) scheduler->Stop();
  };
  std::vector<std::thread> clients;
  for (uint32_t i = 0; i < 6; ++i) clients.emplace_back(client, i);
  scheduler->Run();
  for (std::thread& one : clients) one.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(accepted, ended);
  EXPECT_GT(accepted, 0);
  const SchedulerStats stats = scheduler->stats();
  EXPECT_EQ(stats.accepted, static_cast<uint64_t>(accepted));
  EXPECT_EQ(stats.completed + stats.stopped + stats.failed, stats.accepted);
}

}  // namespace
}  // namespace picchio
