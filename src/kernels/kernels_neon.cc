#if defined(__aarch64__)

#include "kernels/kernel_tables.h"
#include "kernels/neon_vector.h"
#include "kernels/vector_kernels.h"
#include "kernels/vector_limits.h"

namespace picchio {
namespace {
struct Unit {};
using V = NeonVector<Unit>;
}  // namespace

constinit const Kernels kNeonKernels = vector::KernelsOver<V>(InstructionSet::kNeon);
constinit const CoreLimits kNeonLimits = vector::LimitsOver<V>(InstructionSet::kNeon);

}  // namespace picchio

#endif
