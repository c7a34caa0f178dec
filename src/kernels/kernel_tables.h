// The tables that this build has, of kernels and of limits; each is compiled for its own
// instruction set and is not to be called before CpuHas says so.
#pragma once

#include "kernels/kernels.h"
#include "kernels/limits.h"

namespace picchio {

extern const Kernels kScalarKernels;
extern const CoreLimits kScalarLimits;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const CoreLimits kAvx2Limits;
extern const Kernels kAvxVnniKernels;
extern const CoreLimits kAvxVnniLimits;
extern const Kernels kAvx512Kernels;
extern const CoreLimits kAvx512Limits;
#elif defined(__aarch64__)
extern const Kernels kNeonKernels;
extern const CoreLimits kNeonLimits;
#endif

}  // namespace picchio
