#if defined(__x86_64__)

#include "kernels/avx512_vector.h"
#include "kernels/kernel_tables.h"
#include "kernels/vector_kernels.h"
#include "kernels/vector_limits.h"

namespace picchio {
namespace {

struct Unit {};

using V = Avx512Vector<Unit>;

}  // namespace

constinit const Kernels kAvx512Kernels = vector::KernelsOver<V>(InstructionSet::kAvx512);
constinit const CoreLimits kAvx512Limits = vector::LimitsOver<V>(InstructionSet::kAvx512);

}  // namespace picchio

#endif
