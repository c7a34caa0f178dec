// How well a model predicts a given text: the arithmetic of perplexity, apart from any model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace picchio {

// ln sum exp(logits), F64, as the largest logit and what is to be added to it: a difference to the
// largest loses no bit of either.
struct LogSumExp {
  double largest = 0;
  double rest = 0;
};
LogSumExp LogSumExpOf(std::span<const float> logits);

// -ln softmax(logits)[target] in nats, F64, over all rows of the head. logits are finite; target is
// one of their indexes. Within 1e-12 of the real value, or 1e-15 of it where that is more.
double NegativeLogLikelihood(std::span<const float> logits, int32_t target);

// A stretch of ids [begin, end) that the model runs from an empty context, and the first of them
// whose prediction counts. Those before only serve as its context.
struct ScoredWindow {
  size_t begin = 0;
  size_t end = 0;
  size_t first_scored = 0;

  bool operator==(const ScoredWindow&) const = default;
};

// Windows of at most `context` (>= 2) ids over a text of `num_ids`, such that every id but the
// first is scored exactly once. A text that fits is one window. Else each window begins half a
// context behind the one before, so that no id beyond the first window is predicted from less than
// half of it.
std::vector<ScoredWindow> WindowsOver(size_t num_ids, size_t context);

}  // namespace picchio
