#include "format/int4_search.h"

#include <array>

#include "format/f32x4.h"

namespace picchio {
namespace {

using f32x4::Clamp;
using f32x4::F32x4;
using f32x4::Load;
using f32x4::RoundNearest;
using f32x4::Splat;

// Codes in [-8, 7], or in [-7, 8]: the second are those of the negated scale.
struct Range {
  float low;
  float high;
};
constexpr std::array<Range, 2> kRanges = {{{-8, 7}, {-7, 8}}};

// A choice of codes, by its sums. gain() is what it takes off the group's sum of squares.
struct Candidate {
  double dot = 0;      // Sum of w * code.
  double squares = 0;  // Sum of code^2.
  size_t range = 0;

  double gain() const { return squares > 0 ? dot * dot / squares : 0; }
};

// The better of the two candidates that rounding w * inverse_scale gives.
Candidate Round(std::span<const float, kInt4Group> group, float inverse_scale) {
  const F32x4 inverse = Splat(inverse_scale);
  // Two sets of accumulators hide the latency of addition.
  std::array<std::array<F32x4, 2>, 2> dot{};
  std::array<std::array<F32x4, 2>, 2> squares{};
  for (size_t i = 0; i < kInt4Group; i += 8) {
    for (size_t k = 0; k < 2; ++k) {
      const F32x4 w = Load(&group[i + 4 * k]);
      const F32x4 rounded = RoundNearest(w * inverse);
      for (size_t range = 0; range < 2; ++range) {
        const F32x4 code = Clamp(rounded, kRanges[range].low, kRanges[range].high);
        dot[range][k] += w * code;
        squares[range][k] += code * code;
      }
    }
  }
  std::array<Candidate, 2> found;
  for (size_t range = 0; range < 2; ++range) {
    found[range] = {f32x4::Sum(dot[range][0] + dot[range][1]),
                    f32x4::Sum(squares[range][0] + squares[range][1]), range};
  }
  return found[1].gain() > found[0].gain() ? found[1] : found[0];
}

// Where max|w| may come to lie, in code units. Least squares never wants the peak much below the
// last code, and clipping more than a third of it pays only for outliers that no group of 64 shows.
constexpr float kFirstPeak = 6.5F;
constexpr float kLastPeak = 12.0F;
constexpr float kPeakStep = 0.5F;
constexpr int kMaxRefinements = 4;

}  // namespace

float FindInt4Scale(std::span<const float, kInt4Group> group, float max_abs) {
  Candidate best;
  for (float peak = kFirstPeak; peak <= kLastPeak; peak += kPeakStep) {
    const Candidate candidate = Round(group, peak / max_abs);
    if (candidate.gain() > best.gain()) best = candidate;
  }
  for (int i = 0; i < kMaxRefinements; ++i) {
    const Candidate candidate = Round(group, static_cast<float>(best.squares / best.dot));
    if (candidate.gain() <= best.gain()) break;
    best = candidate;
  }
  const auto scale = static_cast<float>(best.dot / best.squares);
  return best.range == 0 ? scale : -scale;
}

}  // namespace picchio
