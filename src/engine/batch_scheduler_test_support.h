// A scheduler over the fixtures, requests for it, and what each of them is answered alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/batch_scheduler.h"
#include "engine/session.h"
#include "model/fixture_test_support.h"
#include "support/test_support.h"

namespace picchio {

inline constexpr uint32_t kServedContext = 320;

inline std::vector<int32_t> NoisePrompt(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % 512);
  return ids;
}

inline GenerationOptions Greedy(uint64_t max_tokens) {
  GenerationOptions options{.max_tokens = max_tokens};
  options.sampling.temperature = 0;
  return options;
}

inline ServedRequest RequestOf(std::vector<int32_t> prompt, GenerationOptions options) {
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

}  // namespace picchio
