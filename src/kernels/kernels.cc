#include "kernels/kernels.h"

#include "kernels/kernel_tables.h"
#include "kernels/scalar.h"

namespace picchio {

constinit const Kernels kScalarKernels = {
    .instruction_set = InstructionSet::kScalar,
    .quantize = scalar::Quantize,
    .matmul_int4 = scalar::MatmulInt4,
    .matmul_int8 = scalar::MatmulInt8,
    .matmul_mxfp4 = scalar::MatmulMxfp4,
    .matmul_bf16 = scalar::MatmulBf16,
    .matmul_f32 = scalar::MatmulF32,
    .matmul_int8_f32 = scalar::MatmulInt8F32,
    .matmul_int4_f32 = scalar::MatmulInt4F32,
    .matmul_mxfp4_f32 = scalar::MatmulMxfp4F32,
    .rms_norm = scalar::RmsNorm,
    .rope = scalar::Rope,
    .swiglu = scalar::Swiglu,
    .swiglu_clamped = scalar::SwigluClamped,
    .attention = scalar::Attention,
    .exp = scalar::Exp,
    .add = scalar::Add,
    .scale = scalar::Scale,
    .add_scaled = scalar::AddScaled,
    .all_finite = scalar::AllFinite,
};

const Kernels* KernelsFor(InstructionSet set) {
  if (!CpuHas(set)) return nullptr;
  switch (set) {
    case InstructionSet::kScalar:
      return &kScalarKernels;
#if defined(__x86_64__)
    case InstructionSet::kAvx2:
      return &kAvx2Kernels;
    case InstructionSet::kAvxVnni:
      return &kAvxVnniKernels;
    case InstructionSet::kAvx512:
      return &kAvx512Kernels;
#elif defined(__aarch64__)
    case InstructionSet::kNeon:
      return &kNeonKernels;
#endif
    default:
      return nullptr;
  }
}

std::vector<const Kernels*> AvailableKernels() {
  std::vector<const Kernels*> available;
  for (const InstructionSet set : kInstructionSets) {
    if (const Kernels* kernels = KernelsFor(set)) available.push_back(kernels);
  }
  return available;
}

const Kernels& BestKernels() { return *AvailableKernels().back(); }

}  // namespace picchio
