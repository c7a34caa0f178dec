#if defined(__x86_64__)

#include "kernels/avx512_vector.h"
#include "kernels/kernel_tables.h"
#include "kernels/vector_kernels.h"
#include "kernels/vector_limits.h"
#include "kernels/vnni_vector.h"

namespace picchio {
namespace {

struct Unit {};

struct Vpdpbusd {
  static __m256i Run(__m256i sum, __m256i a, __m256i b) { return _mm256_dpbusd_epi32(sum, a, b); }
};

using V = VnniVector<Avx512Vector<Unit>, Vpdpbusd>;

}  // namespace

constinit const Kernels kAvx512Kernels = vector::KernelsOver<V>(InstructionSet::kAvx512);
constinit const CoreLimits kAvx512Limits = vector::LimitsOver<V>(InstructionSet::kAvx512);

}  // namespace picchio

#endif
