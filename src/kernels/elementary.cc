#include "kernels/elementary.h"

#include <bit>
#include <cstdint>
#include <limits>

#include "base/check.h"

namespace picchio {
namespace {

// x + kShift has the integer nearest to x in its low bits, ties to even, for |x| < 2^51.
constexpr double kShift = 0x1.8p52;

// ln 2 = kLn2High + kLn2Low: the first has 32 bits, so that small integers times it are exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// 1 / n! for n up to 18, whose factorial is still exact.
struct InverseFactorials {
  constexpr InverseFactorials() : of() {
    double factorial = 1;
    of[0] = 1;
    for (int n = 1; n <= 18; ++n) {
      factorial *= n;
      of[n] = 1 / factorial;
    }
  }
  double of[19];
};
constexpr InverseFactorials kInverse;

int64_t LowBits(double shifted) {
  return static_cast<int64_t>(std::bit_cast<uint64_t>(shifted) - std::bit_cast<uint64_t>(kShift));
}

}  // namespace

double LogF64(double x) {
  PICCHIO_DCHECK(x >= std::numeric_limits<double>::min() &&
                 x < std::numeric_limits<double>::infinity());
  // x = 2^k m with m in [sqrt(1/2), sqrt(2)).
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const int64_t k = static_cast<int64_t>(bits - kSqrtHalf) >> 52;
  const double m = std::bit_cast<double>(bits - (static_cast<uint64_t>(k) << 52));
  // log m = 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1) / (m + 1), |s| < 0.172: what is left out is
  // below 2 * 0.172^23 / 23 = 1e-19.
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double sum = 0;
  for (int i = 21; i >= 3; i -= 2) sum = (sum + 1.0 / i) * square;
  const double log_m = 2 * s + 2 * s * sum;
  const auto n = static_cast<double>(k);
  return n * kLn2High + (n * kLn2Low + log_m);
}

SinCos SinCosF64(double x) {
  PICCHIO_DCHECK(x >= -0x1p21 && x <= 0x1p21);
  // pi/2 in parts of 31, 32 and 53 bits: |n| < 2^21, so n times the first two is exact, and so is
  // the first difference.
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kPart1 = 0x1.921fb544p0;
  constexpr double kPart2 = 0x1.0b4611a6p-34;
  constexpr double kPart3 = 0x1.3198a2e037073p-69;
  const double shifted = x * kTwoOverPi + kShift;
  const double n = shifted - kShift;
  const double r = ((x - n * kPart1) - n * kPart2) - n * kPart3;
  const double square = r * r;

  // Taylor series for |r| <= pi/4 (and a little): what is left out is below 0.79^19 / 19! and
  // 0.79^18 / 18!, both under 3e-18.
  double sin = kInverse.of[17];
  for (int i = 15; i >= 3; i -= 2) sin = kInverse.of[i] - square * sin;
  sin = r - r * square * sin;
  double cos = kInverse.of[16];
  for (int i = 14; i >= 2; i -= 2) cos = kInverse.of[i] - square * cos;
  cos = 1 - square * cos;

  switch (LowBits(shifted) & 3) {
    case 0:
      return {sin, cos};
    case 1:
      return {cos, -sin};
    case 2:
      return {-sin, -cos};
    default:
      return {-cos, sin};
  }
}

}  // namespace picchio
