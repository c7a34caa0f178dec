#include "kernels/rope.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/exp.h"
#include "kernels/elementary.h"

namespace picchio {
namespace {

constexpr double kTwoPi = 0x1.921fb54442d18p2;

double MagnitudeScale(double factor, double m) {
  return factor > 1 ? 0.1 * m * LogF64(factor) + 1 : 1;
}

// The dimension whose wave turns `rotations` times within the original context.
double CorrectionDimension(double rotations, double theta, size_t head_dim, double positions) {
  return static_cast<double>(head_dim) * LogF64(positions / (rotations * kTwoPi)) /
         (2 * LogF64(theta));
}

}  // namespace

double YarnAttentionFactor(double factor) { return MagnitudeScale(factor, 1); }

double YarnAttentionFactor(double factor, double mscale, double mscale_all_dim) {
  return MagnitudeScale(factor, mscale) / MagnitudeScale(factor, mscale_all_dim);
}

RopeTable::RopeTable(double theta, size_t head_dim) : inverse_frequencies_(head_dim / 2) {
  PICCHIO_CHECK(head_dim % 2 == 0 && theta > 1);
  const double log_theta = LogF64(theta);
  for (size_t i = 0; i < inverse_frequencies_.size(); ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(head_dim);
    inverse_frequencies_[i] = 1 / ExpF64(exponent * log_theta);
  }
}

RopeTable::RopeTable(double theta, size_t head_dim, const YarnParameters& yarn)
    : RopeTable(theta, head_dim) {
  attention_factor_ = yarn.attention_factor;
  double low = CorrectionDimension(yarn.beta_fast, theta, head_dim, yarn.original_max_positions);
  double high = CorrectionDimension(yarn.beta_slow, theta, head_dim, yarn.original_max_positions);
  if (yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim) - 1);
  if (low == high) high += 0.001;  // As the reference implementations: a step, not a division by 0.

  for (size_t i = 0; i < inverse_frequencies_.size(); ++i) {
    const double plain = inverse_frequencies_[i];
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    inverse_frequencies_[i] = plain * (1 - ramp) + plain / yarn.factor * ramp;
  }
}

void RopeTable::CosSin(size_t position, float* cos, float* sin) const {
  for (size_t i = 0; i < inverse_frequencies_.size(); ++i) {
    const SinCos turn = SinCosF64(static_cast<double>(position) * inverse_frequencies_[i]);
    cos[i] = static_cast<float>(turn.cos * attention_factor_);
    sin[i] = static_cast<float>(turn.sin * attention_factor_);
  }
}

}  // namespace picchio
