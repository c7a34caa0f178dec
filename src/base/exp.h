// The exponential function in F64, the same bits on every machine.
#pragma once

namespace picchio {

// exp(x). Made of IEEE additions and multiplications in a fixed order and of powers of two, so that
// two machines draw the same tokens from the same logits; the C library's own differs from system
// to system. Off by less than 1 unit in the last place (tested); exp(-0) = exp(0) = 1, exp(-inf) =
// 0, overflow gives +inf, underflow goes through the denormals to 0, NaN stays NaN.
double ExpF64(double x);

}  // namespace picchio
