#if defined(__x86_64__)

#include "kernels/avx2_vector.h"
#include "kernels/kernel_tables.h"
#include "kernels/vector_kernels.h"
#include "kernels/vector_limits.h"
#include "kernels/vnni_vector.h"

namespace picchio {
namespace {

struct Unit {};

struct Vpdpbusd {
  static __m256i Run(__m256i sum, __m256i a, __m256i b) {
    return _mm256_dpbusd_avx_epi32(sum, a, b);
  }
};

using V = VnniVector<Avx2Vector<Unit>, Vpdpbusd>;

}  // namespace

constinit const Kernels kAvxVnniKernels = vector::KernelsOver<V>(InstructionSet::kAvxVnni);
constinit const CoreLimits kAvxVnniLimits = vector::LimitsOver<V>(InstructionSet::kAvxVnni);

}  // namespace picchio

#endif
