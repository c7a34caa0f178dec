// What the model itself thought of a token that was drawn, and of the likeliest others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace picchio {

struct TokenLogprob {
  int32_t id = 0;
  float logit = 0;
  double logprob = 0;  // ln of its probability: 0 or less.

  bool operator==(const TokenLogprob&) const = default;
};

struct TokenLogprobs {
  TokenLogprob drawn;
  std::vector<TokenLogprob> top;  // By logit descending, then by id ascending.

  bool operator==(const TokenLogprobs&) const = default;
};

// Of softmax(logits): before bias, penalties, temperature, filters and constraint, over all ids
// that can be drawn, in F64. `drawn` is one of them. The `num_top` likeliest; of more than there
// are, all. logits are finite.
TokenLogprobs LogprobsOf(std::span<const float> logits, int32_t drawn, size_t num_top);

}  // namespace picchio
