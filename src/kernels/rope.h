// Rotary position embedding: inverse frequencies, and cosines and sines of a position.
//
// Frequencies, angles, sines and cosines are F64 by base/exp.h and kernels/elementary.h and rounded
// once to F32 at the end: angles in F32 are off by 1e-4 at position 4,096 and 2e-3 at 131,072.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace picchio {

// YaRN (arXiv 2309.00071), as the rope_scaling of a configuration gives it.
struct YarnParameters {
  double factor = 1;                  // > 0
  double original_max_positions = 0;  // original_max_position_embeddings, > 0
  double beta_fast = 32;              // > 0
  double beta_slow = 1;               // > 0
  bool truncate = true;               // Round the ramp's ends to whole dimensions.
  double attention_factor = 1;        // What cosines and sines are multiplied by.
};

// 0.1 * ln(factor) + 1, or 1 for a factor of at most 1: YaRN's multiplier where the configuration
// names no other.
double YarnAttentionFactor(double factor);
// Where it gives mscale and mscale_all_dim: (0.1 m ln(factor) + 1) of the first over the second's.
double YarnAttentionFactor(double factor, double mscale, double mscale_all_dim);

// The table of one model. head_dim (the dimensions that rotate) is even, theta > 1.
class RopeTable {
 public:
  RopeTable(double theta, size_t head_dim);
  RopeTable(double theta, size_t head_dim, const YarnParameters& yarn);

  size_t head_dim() const { return 2 * inverse_frequencies_.size(); }
  // [head_dim / 2], radians per position.
  std::span<const double> inverse_frequencies() const { return inverse_frequencies_; }
  double attention_factor() const { return attention_factor_; }

  // Cosines and sines of `position` (at most 2^21) times the frequencies, times the attention
  // factor; both [head_dim / 2]. For positions up to 2^20 they are within 2^-24 + 2^-32 of the
  // exact ones, times the attention factor.
  void CosSin(size_t position, float* cos, float* sin) const;

 private:
  std::vector<double> inverse_frequencies_;
  double attention_factor_ = 1;
};

}  // namespace picchio
