// A short run whose source fails at every one of its reads in turn: another source steps in and the
// tokens are the same, or the run stops and says at which expert. No token is ever a wrong one.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/session.h"
#include "engine/tiny_model_test_support.h"
#include "experts/faulty_expert_source.h"
#include "experts/tiered_expert_source.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using Ids = std::vector<int32_t>;

constexpr Code kCodes[] = {Code::kNotFound, Code::kCorrupt, Code::kIoError, Code::kUnavailable};

class FaultyReads : public testing::Test {
 protected:
  Generation NewGeneration() const {
    Ids prompt;
    for (int32_t i = 0; i < 11; ++i) prompt.push_back((i * 37 + 11) % 256);
    GenerationOptions options{.max_tokens = 6};
    options.sampling.temperature = 0;
    return Generation::Create(std::move(prompt), std::move(options),
                              static_cast<int32_t>(TinyModel::kVocabulary), 64, nullptr)
        .value();
  }

  std::unique_ptr<FaultyExpertSource> Faulty(FaultPlan plan) const {
    return std::make_unique<FaultyExpertSource>(model_.MakeSource(), std::move(plan));
  }

  // Runs over a cache of this source; what was drawn goes to `drawn`.
  Status Run(ExpertCache& cache, Ids& drawn) {
    const auto forward = model_.MakeForward(cache, /*max_rows=*/4);
    Session session = Session::Create(*forward, cache, 64).value();
    Generation generation = NewGeneration();
    const auto stats = session.Generate(generation, {});
    drawn.assign(generation.generated().begin(), generation.generated().end());
    return StatusOf(stats);
  }

  TinyModel model_;
};

TEST_F(FaultyReads, AnotherSourceStepsInOrTheRunStops) {
  Ids expected;
  const auto whole = TinyModel::MakeCache(Faulty({}));
  ASSERT_OK(Run(*whole, expected));
  ASSERT_EQ(expected.size(), 6u);
  const uint64_t num_reads = whole->stats().reads;
  ASSERT_GT(num_reads, 30u);  // Three slots for two layers of four experts: they come and go.

  for (uint64_t n = 0; n <= num_reads; ++n) {
    const bool fails = n < num_reads;  // The last plan is for a read that does not come.
    const uint64_t failures = fails ? 1 : 0;
    const Code code = kCodes[n % std::size(kCodes)];
    FaultPlan plan;
    plan.fail_reads = {{n, code}};

    std::vector<std::unique_ptr<ExpertSource>> tiers;
    tiers.push_back(Faulty(plan));
    tiers.push_back(model_.MakeSource());
    auto tiered = TieredExpertSource::Create(std::move(tiers), {}).value();
    const TieredExpertSource& sources = *tiered;
    const auto with_fallback = TinyModel::MakeCache(std::move(tiered));
    Ids drawn;
    ASSERT_OK(Run(*with_fallback, drawn)) << "read " << n;
    EXPECT_EQ(drawn, expected) << "read " << n;
    EXPECT_EQ(sources.tier_stats()[0].failed, failures) << "read " << n;
    EXPECT_EQ(sources.tier_stats()[1].served, failures) << "read " << n;
    EXPECT_EQ(with_fallback->stats().fallbacks, failures) << "read " << n;

    const auto alone = TinyModel::MakeCache(Faulty(plan));
    const Status status = Run(*alone, drawn);
    if (!fails) {
      EXPECT_OK(status);
      EXPECT_EQ(drawn, expected);
      continue;
    }
    EXPECT_THAT(status, Fails(code, "layer "));
    EXPECT_THAT(status.message(), testing::ContainsRegex("layer [01] expert [0-3]: injected"));
    // What was drawn before is right, and the failure is over once it has been told.
    EXPECT_LT(drawn.size(), expected.size()) << "read " << n;
    EXPECT_TRUE(std::equal(drawn.begin(), drawn.end(), expected.begin())) << "read " << n;
    ASSERT_OK(Run(*alone, drawn)) << "read " << n;
    EXPECT_EQ(drawn, expected) << "read " << n;
  }
}

}  // namespace
}  // namespace picchio
