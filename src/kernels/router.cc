#include "kernels/router.h"

#include "base/check.h"
#include "kernels/exp.h"

namespace picchio {

void RouteTopK(std::span<const float> logits, RouterWeights kind, std::span<uint32_t> ids,
               std::span<float> weights) {
  const size_t k = ids.size();
  PICCHIO_CHECK(k >= 1 && k <= logits.size() && weights.size() == k);
  // Insertion into a sorted list: k is small, and most experts lose against its last at once. Until
  // the end, `weights` holds the logits of the chosen.
  size_t count = 0;
  for (size_t e = 0; e < logits.size(); ++e) {
    const float logit = logits[e];
    if (count == k && !(logit > weights[k - 1])) continue;
    size_t rank = count < k ? count++ : k - 1;
    for (; rank > 0 && logit > weights[rank - 1]; --rank) {
      weights[rank] = weights[rank - 1];
      ids[rank] = ids[rank - 1];
    }
    weights[rank] = logit;
    ids[rank] = static_cast<uint32_t>(e);
  }

  const float largest = weights[0];
  const float last_chosen = weights[k - 1];
  const uint32_t last_chosen_id = ids[k - 1];
  float sum = 0;
  for (float& weight : weights) {
    weight = Exp(weight - largest);
    sum += weight;
  }
  if (kind == RouterWeights::kSoftmaxOverAll) {
    for (size_t e = 0; e < logits.size(); ++e) {
      const bool chosen =
          logits[e] > last_chosen || (logits[e] == last_chosen && e <= last_chosen_id);
      if (!chosen) sum += Exp(logits[e] - largest);
    }
  }
  for (float& weight : weights) weight /= sum;
}

}  // namespace picchio
