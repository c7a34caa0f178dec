#include "kernels/instruction_set.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace picchio {
namespace {

#if defined(__x86_64__)

bool HasAvx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

// Not among the names that every compiler's __builtin_cpu_supports knows: CPUID leaf 7, subleaf 1,
// EAX bit 4 (Intel SDM volume 2A). The registers it uses are AVX2's.
bool HasAvxVnni() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return HasAvx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1) != 0;
}

bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

#endif

}  // namespace

std::string_view InstructionSetName(InstructionSet set) {
  switch (set) {
    case InstructionSet::kScalar:
      return "scalar";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvxVnni:
      return "avx-vnni";
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kNeon:
      return "neon";
  }
  return "unknown";
}

bool CpuHas(InstructionSet set) {
  switch (set) {
    case InstructionSet::kScalar:
      return true;
#if defined(__x86_64__)
    case InstructionSet::kAvx2:
      return HasAvx2();
    case InstructionSet::kAvxVnni:
      return HasAvxVnni();
    case InstructionSet::kAvx512:
      return HasAvx512();
#elif defined(__aarch64__)
    case InstructionSet::kNeon:
      return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#endif
    default:
      return false;
  }
}

}  // namespace picchio
