#include "engine/generation.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/test_support.h"
#include "tokenizer/tokenizer_test_support.h"

namespace picchio {
namespace {

using Ids = std::vector<int32_t>;

constexpr int32_t kVocabulary = 288;  // 21 rows more than the tokenizer has tokens.
constexpr int32_t kHello = 259;
constexpr int32_t kWorld = 264;
constexpr int32_t kEnd = 265;

class GenerationTest : public testing::Test {
 protected:
  Generation Make(GenerationOptions options, uint32_t context = 100, Ids prompt = {1, 2, 3}) {
    options.sampling.temperature = 0;
    auto generation = Generation::Create(std::move(prompt), std::move(options), kVocabulary,
                                         context, &tokenizer_);
    PICCHIO_CHECK(generation.has_value());
    return std::move(generation).value();
  }

  // Has the model predict `id`, and returns the text that this brings.
  static std::string Push(Generation& generation, int32_t id) {
    std::vector<float> logits(kVocabulary);
    logits[static_cast<size_t>(id)] = 1;
    auto text = generation.Accept(logits);
    PICCHIO_CHECK(text.has_value());
    return *text;
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

TEST_F(GenerationTest, TextAndIdsUpToMaxTokens) {
  Generation generation = Make({.max_tokens = 3});
  EXPECT_EQ(generation.num_prompt_ids(), 3u);
  EXPECT_FALSE(generation.finished());
  EXPECT_EQ(Push(generation, kHello), "hello");
  EXPECT_EQ(Push(generation, kWorld), " world");
  EXPECT_FALSE(generation.finished());
  EXPECT_EQ(Push(generation, '!'), "!");
  EXPECT_EQ(generation.reason(), FinishReason::kMaxTokens);
  EXPECT_EQ(Generated(generation), (Ids{kHello, kWorld, '!'}));
  EXPECT_EQ(generation.ids().size(), 6u);
  EXPECT_EQ(generation.Cancel(), "");
  EXPECT_EQ(generation.reason(), FinishReason::kMaxTokens);
}

TEST_F(GenerationTest, AStopIdEndsItUnseen) {
  Generation generation = Make({.stop_ids = {7, kEnd}});
  EXPECT_EQ(Push(generation, kHello), "hello");
  EXPECT_EQ(Push(generation, kEnd), "");
  EXPECT_EQ(generation.reason(), FinishReason::kStopId);
  EXPECT_EQ(Generated(generation), (Ids{kHello, kEnd}));
}

TEST_F(GenerationTest, WithoutStopIdsTheTokenIsText) {
  Generation generation = Make({});
  EXPECT_EQ(Push(generation, kEnd), "<|end|>");
  EXPECT_FALSE(generation.finished());
}

TEST_F(GenerationTest, AStopStringOverSeveralTokens) {
  Generation generation = Make({.stop_strings = {"lo wor"}});
  EXPECT_EQ(Push(generation, kHello), "hel");
  EXPECT_EQ(Push(generation, kWorld), "");
  EXPECT_EQ(generation.reason(), FinishReason::kStopString);
  EXPECT_EQ(generation.matched_stop_string(), "lo wor");
  EXPECT_EQ(Generated(generation), (Ids{kHello, kWorld}));
}

TEST_F(GenerationTest, WhatWasHeldBackComesAtTheEnd) {
  Generation by_id = Make({.stop_ids = {kEnd}, .stop_strings = {"lo worms"}});
  EXPECT_EQ(Push(by_id, kHello), "hel");
  EXPECT_EQ(Push(by_id, kEnd), "lo");
  Generation by_count = Make({.max_tokens = 1, .stop_strings = {"lo worms"}});
  EXPECT_EQ(Push(by_count, kHello), "hello");
  Generation cancelled = Make({.stop_strings = {"lo worms"}});
  EXPECT_EQ(Push(cancelled, kHello), "hel");
  EXPECT_EQ(cancelled.Cancel(), "lo");
  EXPECT_EQ(cancelled.reason(), FinishReason::kCancelled);
}

TEST_F(GenerationTest, CharactersAreWhole) {
  Generation generation = Make({.max_tokens = 5});  // U+1F426, then half of U+00E9.
  EXPECT_EQ(Push(generation, 0xF0), "");
  EXPECT_EQ(Push(generation, 0x9F), "");
  EXPECT_EQ(Push(generation, 0x90), "");
  EXPECT_EQ(Push(generation, 0xA6), "\U0001F426");
  EXPECT_EQ(Push(generation, 0xC3), "\uFFFD");
  Generation broken = Make({.stop_ids = {kEnd}, .stop_strings = {"a\uFFFD"}});
  EXPECT_EQ(Push(broken, 'a'), "");
  EXPECT_EQ(Push(broken, 0xC3), "");
  EXPECT_EQ(Push(broken, kEnd), "");
  EXPECT_EQ(broken.reason(), FinishReason::kStopString);
}

TEST_F(GenerationTest, TheContextEndsIt) {
  for (auto max_tokens : {std::optional<uint64_t>(), std::optional<uint64_t>(3),
                          std::optional<uint64_t>(std::numeric_limits<uint64_t>::max())}) {
    Generation generation = Make({.max_tokens = max_tokens}, 5);
    Push(generation, 'a');
    EXPECT_FALSE(generation.finished());
    Push(generation, 'b');
    EXPECT_EQ(generation.reason(), FinishReason::kContext);
    EXPECT_EQ(generation.ids().size(), 5u);
  }
  Generation exact = Make({.max_tokens = 2}, 5);
  Push(exact, 'a');
  Push(exact, 'b');
  EXPECT_EQ(exact.reason(), FinishReason::kMaxTokens);
}

TEST_F(GenerationTest, NothingToDraw) {
  Generation generation = Make({.max_tokens = 0}, 3);  // The prompt may fill the context.
  EXPECT_EQ(generation.reason(), FinishReason::kMaxTokens);
  EXPECT_TRUE(generation.generated().empty());
}

TEST_F(GenerationTest, RowsBeyondTheTokenizerAreNeverDrawn) {
  Generation generation = Make({});
  std::vector<float> logits(kVocabulary);
  logits[270] = 100;
  logits[66] = 1;
  EXPECT_OK(generation.Accept(logits));
  EXPECT_EQ(Generated(generation), (Ids{66}));
}

TEST_F(GenerationTest, PenaltiesLookBackOnPromptAndAnswer) {
  GenerationOptions options;
  options.sampling.repeat_penalty = 2;
  Generation generation = Make(std::move(options), 100, {'a'});
  std::vector<float> logits(kVocabulary, -10.0f);
  logits['a'] = 3;
  logits['b'] = 2;
  logits['c'] = 1.25f;
  for (int i = 0; i < 3; ++i) EXPECT_OK(generation.Accept(logits));
  // 'a' counts 1.5 from the start, 'b' 2 and then 1.
  EXPECT_EQ(Generated(generation), (Ids{'b', 'a', 'a'}));
}

TEST_F(GenerationTest, WithoutATokenizerThereAreIdsOnly) {
  GenerationOptions options;
  options.sampling.temperature = 0;
  ASSERT_OK_AND_ASSIGN(Generation generation,
                       Generation::Create({1}, options, kVocabulary, 10, nullptr));
  EXPECT_EQ(Push(generation, 287), "");
  EXPECT_EQ(generation.Cancel(), "");
  EXPECT_EQ(Generated(generation), (Ids{287}));
  options.stop_strings = {"x"};
  EXPECT_THAT(Generation::Create({1}, options, kVocabulary, 10, nullptr),
              Fails(Code::kInvalidArgument, "stop strings need the model's tokenizer"));
}

TEST_F(GenerationTest, BadPromptsAndOptionsAreRefused) {
  const auto create = [&](Ids prompt, GenerationOptions options, uint32_t context) {
    return Generation::Create(std::move(prompt), std::move(options), kVocabulary, context,
                              &tokenizer_);
  };
  EXPECT_THAT(create({}, {}, 10), Fails(Code::kInvalidArgument, "the prompt is empty"));
  EXPECT_THAT(create({1, 288}, {}, 10),
              Fails(Code::kInvalidArgument,
                    "token 1 of the prompt has the id 288, but the model's ids are 0 to 287"));
  EXPECT_THAT(create({-1}, {}, 10), Fails(Code::kInvalidArgument, "has the id -1"));
  EXPECT_THAT(create(Ids(11, 1), {}, 10),
              Fails(Code::kInvalidArgument, "the prompt has 11 tokens, but the context holds 10"));
  EXPECT_THAT(create(Ids(10, 1), {}, 10),
              Fails(Code::kInvalidArgument, "leaves no room for an answer"));
  GenerationOptions hot;
  hot.sampling.temperature = -1;
  EXPECT_THAT(create({1}, hot, 10), Fails(Code::kInvalidArgument, "temperature"));
  EXPECT_THAT(create({1}, {.stop_strings = {""}}, 10), Fails(Code::kInvalidArgument, "empty"));
}

TEST_F(GenerationTest, BrokenLogitsAreAnError) {
  Generation generation = Make({});
  EXPECT_THAT(generation.Accept(std::vector<float>(kVocabulary, std::nanf(""))),
              Fails(Code::kCorrupt, "the logit of token 0"));
  EXPECT_FALSE(generation.finished());
}

TEST(FinishReason, Names) {
  EXPECT_EQ(FinishReasonName(FinishReason::kNone), "none");
  EXPECT_EQ(FinishReasonName(FinishReason::kStopId), "stop_id");
  EXPECT_EQ(FinishReasonName(FinishReason::kStopString), "stop_string");
  EXPECT_EQ(FinishReasonName(FinishReason::kMaxTokens), "max_tokens");
  EXPECT_EQ(FinishReasonName(FinishReason::kContext), "context");
  EXPECT_EQ(FinishReasonName(FinishReason::kCancelled), "cancelled");
}

TEST_F(GenerationTest, LogprobsOfWhatCanBeDrawn) {
  Generation generation = Make({.max_tokens = 3, .top_logprobs = 2});
  EXPECT_FALSE(generation.last_logprobs().has_value());
  std::vector<float> logits(kVocabulary, -1000.0f);
  logits[5] = 2;
  logits[7] = 2;
  logits[kVocabulary - 1] = 50;  // Padding.
  ASSERT_OK(generation.Accept(logits));
  ASSERT_TRUE(generation.last_logprobs().has_value());
  const TokenLogprobs& logprobs = *generation.last_logprobs();
  EXPECT_EQ(logprobs.drawn.id, 5);
  EXPECT_NEAR(logprobs.drawn.logprob, std::log(0.5), 1e-12);
  ASSERT_EQ(logprobs.top.size(), 2u);
  EXPECT_EQ(logprobs.top[1].id, 7);
}

TEST_F(GenerationTest, AConstraintSaysWhatMayCome) {
  std::vector<Ids> asked;
  GenerationOptions options{.max_tokens = 5, .stop_ids = {kEnd}};
  // "hello", then " world", then the end; then nothing, which is never asked for.
  options.constraint = [&](std::span<const int32_t> generated, TokenMask& allowed) {
    asked.emplace_back(generated.begin(), generated.end());
    for (int32_t id = 0; id < 267; ++id) EXPECT_FALSE(allowed.Allows(id));
    allowed.Allow(generated.empty() ? kHello : generated.size() == 1 ? kWorld : kEnd);
    return Status::Ok();
  };
  Generation generation = Make(options);
  std::string text;
  while (!generation.finished()) text += Push(generation, '!');
  EXPECT_EQ(text, "hello world");
  EXPECT_EQ(generation.reason(), FinishReason::kStopId);
  EXPECT_EQ(asked, (std::vector<Ids>{{}, {kHello}, {kHello, kWorld}}));

  options.constraint = [](std::span<const int32_t>, TokenMask&) { return Status::Ok(); };
  Generation nothing = Make(options);
  const std::vector<float> logits(kVocabulary);
  EXPECT_THAT(nothing.Accept(logits), Fails(Code::kInvalidArgument, "ban every token"));
  options.constraint = [](std::span<const int32_t>, TokenMask&) {
    return Error(Code::kUnsupported, "no such grammar");
  };
  Generation failing = Make(options);
  EXPECT_THAT(failing.Accept(logits), Fails(Code::kUnsupported, "no such grammar"));
  EXPECT_TRUE(failing.generated().empty());
}

}  // namespace
}  // namespace picchio
