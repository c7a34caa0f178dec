#if defined(__x86_64__)

#include "kernels/avx2_vector.h"
#include "kernels/kernel_tables.h"
#include "kernels/vector_kernels.h"

namespace picchio {
namespace {
struct Unit {};
}  // namespace

constinit const Kernels kAvx2Kernels = vector::KernelsOver<Avx2Vector<Unit>>(InstructionSet::kAvx2);

}  // namespace picchio

#endif
