#include "base/exp.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace picchio {
namespace {

// ln 2 in two parts. The first has 21 zero bits at its end, so that n * kLn2High is exact for every
// exponent n; the two together hold ln 2 to 2^-86 (the usual reduction after Cody and Waite).
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kLog2E = 0x1.71547652b82fep+0;

constexpr double kOverflow = 0x1.62e42fefa39efp+9;    // ln of the largest F64.
constexpr double kUnderflow = -0x1.74910d52d3052p+9;  // Below this, less than half of 2^-1074.

// 1/k! for k = 2..13. With |r| <= ln(2)/2 the first term left out, r^14/14!, is below 2^-57.
constexpr std::array<double, 12> kInverseFactorials = {
    1.0 / 2,         1.0 / 6,          1.0 / 24,          1.0 / 120,
    1.0 / 720,       1.0 / 5040,       1.0 / 40'320,      1.0 / 362'880,
    1.0 / 3'628'800, 1.0 / 39'916'800, 1.0 / 479'001'600, 1.0 / 6'227'020'800};

// 2^n for the exponents of normal numbers.
double PowerOfTwo(int n) { return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52); }

}  // namespace

double ExpF64(double x) {
  if (std::isnan(x)) return x;
  if (x > kOverflow) return std::numeric_limits<double>::infinity();
  if (x < kUnderflow) return 0;
  // x = n ln 2 + r, |r| <= ln(2)/2 and a little.
  const double n = std::floor(x * kLog2E + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double q = kInverseFactorials.back();
  for (size_t k = kInverseFactorials.size() - 1; k-- > 0;) q = q * r + kInverseFactorials[k];
  const double e = 1.0 + (r + (r * r) * q);
  // In two steps: 2^n itself may be out of range where the result is not. Only the second rounds.
  const int exponent = static_cast<int>(n);
  const int half = exponent / 2;
  return e * PowerOfTwo(half) * PowerOfTwo(exponent - half);
}

}  // namespace picchio
