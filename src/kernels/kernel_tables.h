// The tables that this build has; each is compiled for its own instruction set and is not to be
// called before CpuHas says so.
#pragma once

#include "kernels/kernels.h"

namespace picchio {

extern const Kernels kScalarKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvxVnniKernels;
extern const Kernels kAvx512Kernels;
#elif defined(__aarch64__)
extern const Kernels kNeonKernels;
#endif

}  // namespace picchio
