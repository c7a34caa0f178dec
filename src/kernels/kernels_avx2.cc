#if defined(__x86_64__)

#include "kernels/avx2_vector.h"
#include "kernels/kernel_tables.h"
#include "kernels/vector_kernels.h"
#include "kernels/vector_limits.h"

namespace picchio {
namespace {
struct Unit {};
using V = Avx2Vector<Unit>;
}  // namespace

constinit const Kernels kAvx2Kernels = vector::KernelsOver<V>(InstructionSet::kAvx2);
constinit const CoreLimits kAvx2Limits = vector::LimitsOver<V>(InstructionSet::kAvx2);

}  // namespace picchio

#endif
