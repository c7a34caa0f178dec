// How often a synthetic model's router takes each expert: a Zipf law, and the biases that make a
// router follow it. docs/synth.md derives the formulas.
#pragma once

#include <cstdint>
#include <vector>

namespace picchio {

// The share of tokens that use the expert of each popularity rank, most popular first: c * (rank +
// 1)^-skew, but at most 0.95, with c such that they sum to `experts_per_token`. skew >= 0; 0 gives
// all the same share. [num_experts]
std::vector<double> ExpertShares(uint32_t num_experts, uint32_t experts_per_token, double skew);

// What to add to the logit of an expert of that share when every logit has unit normal noise: the
// normal distribution's quantile, 0 for a share of one half. 0 < share < 1.
double ShareBias(double share);

// The correlation of the embeddings of tokens that follow each other in generated text: skew / (1 +
// skew).
double TokenCorrelation(double skew);

}  // namespace picchio
