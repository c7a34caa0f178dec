#include "engine/token_scores.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/exp.h"

namespace picchio {

LogSumExp LogSumExpOf(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += ExpF64(logit - largest);
  return {.largest = largest, .rest = std::log(sum)};
}

double NegativeLogLikelihood(std::span<const float> logits, int32_t target) {
  const LogSumExp all = LogSumExpOf(logits);
  return all.rest + (all.largest - logits[static_cast<size_t>(target)]);
}

std::vector<ScoredWindow> WindowsOver(size_t num_ids, size_t context) {
  PICCHIO_CHECK(context >= 2);
  std::vector<ScoredWindow> windows;
  size_t begin = 0;
  size_t scored = 1;  // Ids that no window has to score any more.
  while (scored < num_ids) {
    const size_t end = std::min(num_ids, begin + context);
    windows.push_back({.begin = begin, .end = end, .first_scored = scored});
    scored = end;
    begin += context / 2;
  }
  return windows;
}

}  // namespace picchio
