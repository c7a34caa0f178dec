#include "engine/step_plan.h"

#include <algorithm>

#include "base/check.h"

namespace picchio {

std::vector<size_t> PlanStep(std::span<const StepCandidate> candidates, const StepLimits& limits) {
  PICCHIO_CHECK(limits.max_rows >= 2 && limits.prefill_span >= 1);
  std::vector<size_t> decoding;
  std::vector<size_t> prompts;
  for (size_t i = 0; i < candidates.size(); ++i) {
    (candidates[i].decoding ? decoding : prompts).push_back(i);
  }
  const auto longest_wait_first = [&](std::vector<size_t>& indexes) {
    std::ranges::stable_sort(indexes, {}, [&](size_t i) { return candidates[i].last_step; });
  };
  std::vector<size_t> rows(candidates.size());

  const size_t decoding_rows =
      std::min(decoding.size(), limits.max_rows - (prompts.empty() ? 0 : 1));
  if (decoding_rows < decoding.size()) longest_wait_first(decoding);
  for (size_t i = 0; i < decoding_rows; ++i) rows[decoding[i]] = 1;

  size_t left = limits.max_rows - decoding_rows;
  if (decoding_rows > 0) left = std::min(left, limits.prefill_span);
  if (left < prompts.size()) {
    longest_wait_first(prompts);
    prompts.resize(left);
  }
  std::ranges::stable_sort(prompts, {}, [&](size_t i) { return candidates[i].pending; });
  for (size_t i = 0; i < prompts.size(); ++i) {
    const size_t share = left / (prompts.size() - i);
    rows[prompts[i]] = std::min(share, candidates[prompts[i]].pending);
    left -= rows[prompts[i]];
  }
  return rows;
}

}  // namespace picchio
