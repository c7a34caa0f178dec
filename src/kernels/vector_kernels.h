// The table of kernels made of the templates over one vector class.
#pragma once

#include "kernels/kernels.h"
#include "kernels/vector_attention.h"
#include "kernels/vector_matmul.h"
#include "kernels/vector_rows.h"

namespace picchio::vector {

template <typename V>
consteval Kernels KernelsOver(InstructionSet set) {
  return {
      .instruction_set = set,
      .quantize = Quantize<V>,
      .matmul_int4 = MatmulQuantized<V, Int4Format>,
      .matmul_int8 = MatmulQuantized<V, Int8Format>,
      .matmul_mxfp4 = MatmulQuantized<V, Mxfp4Format>,
      .matmul_bf16 = Matmul<V, Bf16Row, Bf16Matrix>,
      .matmul_f32 = Matmul<V, F32Row, F32Matrix>,
      .matmul_int8_f32 = Matmul<V, Int8Row, Int8Matrix>,
      .matmul_int4_f32 = Matmul<V, Int4Row, Int4Matrix>,
      .matmul_mxfp4_f32 = Matmul<V, Mxfp4Row, Mxfp4Matrix>,
      .rms_norm = RmsNorm<V>,
      .rope = Rope<V>,
      .swiglu = Swiglu<V>,
      .swiglu_clamped = SwigluClamped<V>,
      .attention = Attention<V>,
      .exp = ExpAll<V>,
      .add = Add<V>,
      .scale = Scale<V>,
      .add_scaled = AddScaled<V>,
      .all_finite = AllFinite<V>,
  };
}

}  // namespace picchio::vector
