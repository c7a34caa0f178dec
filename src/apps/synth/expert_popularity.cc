#include "apps/synth/expert_popularity.h"

#include <algorithm>
#include <cmath>

namespace picchio {
namespace {

constexpr double kMaxShare = 0.95;
// Its quantile must be finite where all experts are used by every token.
constexpr double kLimitShare = 0.9999;

}  // namespace

std::vector<double> ExpertShares(uint32_t num_experts, uint32_t experts_per_token, double skew) {
  std::vector<double> shares(num_experts);
  for (uint32_t rank = 0; rank < num_experts; ++rank) shares[rank] = std::pow(rank + 1, -skew);
  const double most = std::min(
      std::max(kMaxShare, static_cast<double>(experts_per_token) / num_experts), kLimitShare);
  double left = experts_per_token;
  double weights = 0;
  for (const double weight : shares) weights += weight;
  // The weights descend: those that the limit cuts come first, and what they give up raises the
  // rest.
  for (double& share : shares) {
    const double weight = share;
    share = std::min(most, weight * left / weights);
    left -= share;
    weights -= weight;
    if (share < most) {
      // This one and all after it keep their proportion.
      const double factor = share / weight;
      for (double* rest = &share + 1; rest <= &shares.back(); ++rest) *rest *= factor;
      break;
    }
  }
  return shares;
}

double ShareBias(double share) {
  double low = -10;
  double high = 10;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < share ? low : high) = middle;
  }
  return low;
}

double TokenCorrelation(double skew) { return skew / (1 + skew); }

}  // namespace picchio
