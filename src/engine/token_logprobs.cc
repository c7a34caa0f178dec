#include "engine/token_logprobs.h"

#include <algorithm>

#include "engine/token_scores.h"

namespace picchio {

TokenLogprobs LogprobsOf(std::span<const float> logits, int32_t drawn, size_t num_top) {
  const LogSumExp all = LogSumExpOf(logits);
  const auto of = [&](int32_t id) {
    const float logit = logits[static_cast<size_t>(id)];
    return TokenLogprob{.id = id, .logit = logit, .logprob = (logit - all.largest) - all.rest};
  };

  TokenLogprobs result{.drawn = of(drawn), .top = {}};
  const auto ranks_before = [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  num_top = std::min(num_top, logits.size());
  if (num_top == 0) return result;
  // The best so far, the last of them on top of the heap.
  for (size_t i = 0; i < logits.size(); ++i) {
    const TokenLogprob one = of(static_cast<int32_t>(i));
    if (result.top.size() == num_top) {
      if (!ranks_before(one, result.top.front())) continue;
      std::ranges::pop_heap(result.top, ranks_before);
      result.top.pop_back();
    }
    result.top.push_back(one);
    std::ranges::push_heap(result.top, ranks_before);
  }
  std::ranges::sort_heap(result.top, ranks_before);
  return result;
}

}  // namespace picchio
