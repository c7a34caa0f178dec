// Sessions and perplexity against the reference values of the golden fixtures, which another
// implementation computed in F64.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/perplexity.h"
#include "engine/session.h"
#include "model/fixture_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

class SessionGoldenTest : public testing::TestWithParam<std::string> {
 protected:
  const Fixture fixture_ = Fixture::Open(TestData("fixtures/" + std::string(GetParam())));
  const std::vector<int32_t> ids_ = fixture_.Golden<int32_t>("p96.ids");
  TestEngine engine_ =
      TestEngine::Make(fixture_, MakeRecords(fixture_, PayloadKind::kBf16), {.max_rows = 40});
};

TEST_P(SessionGoldenTest, GreedyContinuation) {
  auto session = Session::Create(*engine_.pass, *engine_.cache, 128);
  ASSERT_OK(session);
  GenerationOptions options{.max_tokens = 32};
  options.sampling.temperature = 0;
  ASSERT_OK_AND_ASSIGN(Generation generation,
                       Generation::Create(ids_, options, session->vocab_size(), 128, nullptr));
  ASSERT_OK(session->Generate(generation, {}));
  EXPECT_EQ(std::vector(generation.generated().begin(), generation.generated().end()),
            fixture_.Golden<int32_t>("p96.orig.greedy_tokens"));
}

// Back and forth through a conversation: the logits are those of a run from an empty context.
TEST_P(SessionGoldenTest, RewoundItIsAsIfRunAnew) {
  constexpr uint32_t kContext = 400;
  const auto run = [&](Session& session, const std::vector<int32_t>& prompt, uint64_t tokens,
                       std::vector<std::vector<float>>& logits) {
    GenerationOptions options{.max_tokens = tokens};
    options.sampling.temperature = 0;
    auto generation =
        Generation::Create(prompt, options, session.vocab_size(), kContext, nullptr).value();
    RunHooks hooks;
    hooks.on_logits = [&](uint32_t position, std::span<const float> row) {
      logits.resize(std::max<size_t>(logits.size(), position + 1));
      logits[position].assign(row.begin(), row.end());
      return Status::Ok();
    };
    const auto stats = session.Generate(generation, hooks);
    PICCHIO_CHECK(stats.has_value());
    return std::pair(std::vector(generation.ids().begin(), generation.ids().end()),
                     stats->reused_positions);
  };
  Session session = Session::Create(*engine_.pass, *engine_.cache, kContext).value();
  std::vector<std::vector<float>> logits;
  const std::vector<int32_t> first(ids_.begin(), ids_.begin() + 30);
  auto [turn, reused] = run(session, first, 200, logits);  // Far beyond any ring.
  // Another answer to the first turn, with more said after it; then back to the first once more.
  std::vector<int32_t> branch = first;
  branch.insert(branch.end(), ids_.begin() + 40, ids_.begin() + 90);
  for (const auto& prompt : {branch, first, turn, first}) {
    Session anew = Session::Create(*engine_.pass, *engine_.cache, kContext).value();
    std::vector<std::vector<float>> expected;
    const auto [expected_ids, none] = run(anew, prompt, 150, expected);
    logits.clear();
    const auto [ids, reused_positions] = run(session, prompt, 150, logits);
    EXPECT_EQ(none, 0u);
    EXPECT_GE(reused_positions, 29u);
    EXPECT_EQ(ids, expected_ids);
    ASSERT_EQ(logits.size(), expected.size());
    for (size_t p = reused_positions; p < logits.size(); ++p) {
      ASSERT_EQ(logits[p], expected[p]) << "position " << p;
    }
  }
}

TEST_P(SessionGoldenTest, PerplexityOfThePrompt) {
  auto session = Session::Create(*engine_.pass, *engine_.cache, 96);
  ASSERT_OK(session);
  ASSERT_OK_AND_ASSIGN(const Perplexity perplexity, MeasurePerplexity(*session, ids_, {}));
  const std::vector<float> logits = fixture_.Golden<float>("p96.orig.logits");
  const size_t vocab = logits.size() / ids_.size();
  long double expected = 0;
  for (size_t t = 0; t + 1 < ids_.size(); ++t) {
    long double sum = 0;
    for (size_t i = 0; i < vocab; ++i)
      sum += std::exp(static_cast<long double>(logits[t * vocab + i]));
    expected += std::log(sum) - logits[t * vocab + static_cast<size_t>(ids_[t + 1])];
  }
  EXPECT_EQ(perplexity.num_tokens, 95u);
  // Logits are held to 1e-3; so is any mean of their differences, twice.
  EXPECT_NEAR(perplexity.nats_per_token, static_cast<double>(expected / 95), 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, SessionGoldenTest,
                         testing::Values("qwen3_moe_tiny", "qwen3_moe_tiny_dense", "gpt_oss_tiny"),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace picchio
