#include "engine/step_plan.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "support/test_support.h"

namespace picchio {
namespace {

using Rows = std::vector<size_t>;

constexpr StepCandidate kDecoding{.pending = 1, .decoding = true};

StepCandidate PromptOf(size_t pending, uint64_t last_step = 0) {
  return {.pending = pending, .decoding = false, .last_step = last_step};
}

Rows Plan(const std::vector<StepCandidate>& candidates, StepLimits limits) {
  return PlanStep(candidates, limits);
}

TEST(StepPlan, ByHand) {
  EXPECT_EQ(Plan({}, {10, 4}), Rows{});
  EXPECT_EQ(Plan({kDecoding, kDecoding}, {10, 4}), (Rows{1, 1}));
  EXPECT_EQ(Plan({PromptOf(30)}, {10, 4}), (Rows{10})) << "nobody waits for it";
  EXPECT_EQ(Plan({PromptOf(30), kDecoding}, {10, 4}), (Rows{4, 1}));
  EXPECT_EQ(Plan({PromptOf(3), kDecoding}, {10, 4}), (Rows{3, 1}));
  // Equal shares; what the short one leaves is the others'.
  EXPECT_EQ(Plan({PromptOf(30), PromptOf(2), PromptOf(40)}, {20, 4}), (Rows{9, 2, 9}));
  EXPECT_EQ(Plan({PromptOf(30), PromptOf(2), PromptOf(40)}, {4, 4}), (Rows{1, 1, 2}));
  // Too few rows: whoever has waited longest.
  EXPECT_EQ(Plan({PromptOf(9, 7), PromptOf(9, 5), PromptOf(9, 6)}, {2, 2}), (Rows{0, 1, 1}));
  EXPECT_EQ(Plan({{1, true, 3}, {1, true, 2}, {1, true, 1}}, {2, 9}), (Rows{0, 1, 1}));
  EXPECT_EQ(Plan({{1, true, 3}, {1, true, 2}, PromptOf(9)}, {2, 9}), (Rows{0, 1, 1}));
}

// Any mixture ends, within the limits at each step, and nobody waits forever.
TEST(StepPlan, EveryoneIsServed) {
  uint64_t state = 1;
  const auto random = [&](size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % n;
  };
  for (int round = 0; round < 200; ++round) {
    const StepLimits limits{2 + random(12), 1 + random(12)};
    std::vector<StepCandidate> candidates;
    for (size_t i = 1 + random(10); i > 0; --i) {
      candidates.push_back(random(2) == 0 ? kDecoding : PromptOf(1 + random(60)));
    }
    for (uint64_t step = 1; step < 300; ++step) {
      const Rows rows = PlanStep(candidates, limits);
      size_t decoding = 0;
      size_t prompts = 0;
      for (size_t i = 0; i < rows.size(); ++i) {
        ASSERT_LE(rows[i], candidates[i].pending);
        (candidates[i].decoding ? decoding : prompts) += rows[i];
        // A decoding sequence goes on forever; a prompt begins to decode.
        if (rows[i] > 0) {
          candidates[i].last_step = step;
          candidates[i].pending -= candidates[i].decoding ? 0 : rows[i];
          if (candidates[i].pending == 0) candidates[i] = {1, true, step};
        }
        ASSERT_LE(step - candidates[i].last_step, 11u);
      }
      ASSERT_GT(decoding + prompts, 0u);
      ASSERT_LE(decoding + prompts, limits.max_rows);
      if (decoding > 0) {
        ASSERT_LE(prompts, limits.prefill_span);
      }
    }
    for (const StepCandidate& candidate : candidates) {
      EXPECT_TRUE(candidate.decoding || limits.max_rows * limits.prefill_span < 20);
    }
  }
}

}  // namespace
}  // namespace picchio
