#if defined(__aarch64__)

#include "kernels/kernel_tables.h"
#include "kernels/neon_vector.h"
#include "kernels/vector_kernels.h"

namespace picchio {
namespace {
struct Unit {};
}  // namespace

constinit const Kernels kNeonKernels = vector::KernelsOver<NeonVector<Unit>>(InstructionSet::kNeon);

}  // namespace picchio

#endif
