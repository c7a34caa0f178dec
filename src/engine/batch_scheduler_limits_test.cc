// Who is refused, who runs out of time, and how a scheduler ends.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/batch_scheduler_test_support.h"

namespace picchio {
namespace {

using BatchSchedulerLimitsTest = BatchSchedulerTest;

INSTANTIATE_TEST_SUITE_P(Fixtures, BatchSchedulerLimitsTest,
                         testing::Values("qwen3_moe_tiny", "gpt_oss_tiny"),
                         [](const auto& param_info) { return param_info.param; });

TEST_P(BatchSchedulerLimitsTest, RefusesWhatItCannotServe) {
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
TEST_P(BatchSchedulerLimitsTest, TimeLimitsHoldInTheQueueAndOutOfIt) {
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

TEST_P(BatchSchedulerLimitsTest, StoppedItFinishesInTimeOrNot) {
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
TEST_P(BatchSchedulerLimitsTest, ManyThreads) {
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
