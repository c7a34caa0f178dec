// Logarithm, sine and cosine in F64, each defined by the additions, subtractions, multiplications
// and divisions of its source and nothing else: with IEEE arithmetic every machine gives the same
// bits, which the system's mathematical library does not promise. Not a replacement for it where
// that does not matter.
#pragma once

namespace picchio {

struct SinCos {
  double sin;
  double cos;
};

// The natural logarithm of a normal x > 0, within 2^-51 relative to max(|log x|, 2^-1).
double LogF64(double x);

// Sine and cosine of an angle in radians, |x| <= 2^21; within 2^-52 absolute.
SinCos SinCosF64(double x);

}  // namespace picchio
