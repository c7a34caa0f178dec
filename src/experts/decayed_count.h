// How often something happened, old times counting less.
#pragma once

#include <algorithm>
#include <cmath>

namespace picchio {

// A count that halves every `half_life` passes, kept so that two counts compare without bringing
// them to the same time: log2(count) + pass / half_life, which only changes when it is added to.
class DecayedCount {
 public:
  void Add(double pass, double half_life, double amount = 1) {
    const double now = pass / half_life + std::log2(amount);
    const double more = std::max(rank_, now);
    const double less = std::min(rank_, now);
    rank_ = more + std::log2(1 + std::exp2(less - more));
  }
  // Orders counts, whenever each was last added to.
  double rank() const { return rank_; }
  double At(double pass, double half_life) const { return std::exp2(rank_ - pass / half_life); }

 private:
  double rank_ = -1e300;  // log2(0), but finite.
};

// Counts passes through the layers: a layer that is not above the one before begins the next.
class PassClock {
 public:
  void BeginList(int layer) {
    if (layer <= last_layer_) ++pass_;
    last_layer_ = layer;
  }
  double pass() const { return pass_; }

 private:
  int last_layer_ = -1;
  double pass_ = 0;
};

// Half a popularity's life, in passes. Long enough to count (a record of a top-8-of-128 model is
// used four times in it), short enough to follow the text.
inline constexpr double kHalfLifePasses = 64;

}  // namespace picchio
