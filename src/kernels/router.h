// What the router does with its logits: which experts, and with what weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace picchio {

enum class RouterWeights : uint8_t {
  kSoftmaxOverChosen,  // gpt-oss, and Qwen3 with norm_topk_prob: the weights sum to 1.
  kSoftmaxOverAll,     // Qwen3 without norm_topk_prob.
};

// The ids.size() largest of `logits` by rank: larger first, the lower index on ties; and the
// weights of their experts. With l_0 the largest logit and e_r = Exp(l_r - l_0), the weight of rank
// r is e_r / S. S adds from +0 the chosen e_r in rank order and then, for kSoftmaxOverAll, those of
// all others in ascending index. ids and weights have the same size k, 1 <= k <= logits.size() <
// 2^32. Logits are finite.
void RouteTopK(std::span<const float> logits, RouterWeights kind, std::span<uint32_t> ids,
               std::span<float> weights);

}  // namespace picchio
