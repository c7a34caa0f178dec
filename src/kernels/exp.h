// exp and the logistic function in F32, defined by their operations (docs/arithmetic.md), so that
// every machine and every instruction set gives the same bits; a library's exp promises no such
// thing.
#pragma once

namespace picchio {

// Bounds in units in the last place of the result, from trying every F32 (exp_test.cc; they are
// reached within 1 %).

// e^x within 1.02, results below 2^-126 included. +inf above 88.72, +0 below -103.97, NaN for NaN;
// exp(0) is 1.
float Exp(float x);

// 1 / (1 + e^-x) within 2.42; keeps its precision for very negative x.
float Sigmoid(float x);

// x * Sigmoid(x), within 3.2 for x >= -87 (below, the sigmoid itself has few bits left). NaN for
// -infinity.
float Silu(float x);

// The constants of Exp, for the kernels that compute it on vectors.
namespace exp_constants {
inline constexpr float kMax = 89.0F;    // Beyond, the result overflows anyway.
inline constexpr float kMin = -105.0F;  // Beyond, it rounds to zero anyway.
inline constexpr float kLog2E = 0x1.715476p+0F;
inline constexpr float kShift = 0x1.8p23F;  // x + kShift has the nearest integer in its low bits.
inline constexpr float kMinusLn2High = -0x1.62e43p-1F;  // -ln 2 to 24 bits,
inline constexpr float kMinusLn2Low = 0x1.05c61p-29F;   // and the rest of it.
// e^r = 1 + r + r^2 (C2 + C3 r + ... + C6 r^4) within 3.2e-9 relative for |r| <= ln(2) / 2: a Remez
// fit of the relative error, coefficients rounded one after the other, the rest fitted again.
inline constexpr float kC2 = 0x1.fffffcp-2F;
inline constexpr float kC3 = 0x1.55548cp-3F;
inline constexpr float kC4 = 0x1.555858p-5F;
inline constexpr float kC5 = 0x1.123de2p-7F;
inline constexpr float kC6 = 0x1.6ac786p-10F;
}  // namespace exp_constants

}  // namespace picchio
