// The arithmetic of the forward pass: one table of functions per instruction set.
//
// Every table gives the same bits (docs/arithmetic.md defines them), so which one runs is a matter
// of speed only. Where a caller may split work: a product computes any range of a matrix's rows and
// any number of activation rows, and no result depends on how they were cut. Functions neither
// allocate nor fail and may be called from any thread, on which denormals must be on
// (base/thread_pool.h). Inputs and outputs do not overlap unless said. Sizes may be 0. NaN and
// infinity go in and come out as NaN or infinity, never as a number, but with unspecified bits.
//
// Alignment: none is needed beyond the element type's; quantised rows lie at multiples of 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/attention.h"
#include "kernels/instruction_set.h"
#include "kernels/matrix.h"
#include "kernels/quantized_rows.h"

namespace picchio {

struct Kernels {
  InstructionSet instruction_set;

  // --- Activations ---

  // Quantises rows of out.cols() elements into `out`, which has x.num_rows rows.
  void (*quantize)(F32Rows x, const QuantizedRows& out);

  // --- Products: y[t, r] = sum over c of w[r, c] * x[t, c], for r in rows and all rows t of x.
  // y is indexed by the matrix's own r: row_begin is not subtracted. ---

  // Quantised activations of the kind that is made for the weights, of w.cols elements.
  void (*matmul_int4)(const Int4Matrix& w, RowRange rows, const QuantizedRows& x, F32Output y);
  void (*matmul_int8)(const Int8Matrix& w, RowRange rows, const QuantizedRows& x, F32Output y);
  void (*matmul_mxfp4)(const Mxfp4Matrix& w, RowRange rows, const QuantizedRows& x, F32Output y);

  // F32 activations, Dot16 order.
  void (*matmul_bf16)(const Bf16Matrix& w, RowRange rows, F32Rows x, F32Output y);
  void (*matmul_f32)(const F32Matrix& w, RowRange rows, F32Rows x, F32Output y);
  // INT8 weights as floats, the row's scale last: the head, and INT8 weights under --compute f32.
  void (*matmul_int8_f32)(const Int8Matrix& w, RowRange rows, F32Rows x, F32Output y);
  // Decoded weights (code times scale, rounded once): experts under --compute f32.
  void (*matmul_int4_f32)(const Int4Matrix& w, RowRange rows, F32Rows x, F32Output y);
  void (*matmul_mxfp4_f32)(const Mxfp4Matrix& w, RowRange rows, F32Rows x, F32Output y);

  // --- Rows ---

  // y[t, i] = (x[t, i] * r) * w[i], r = 1 / sqrt(Dot16(x[t], x[t]) / cols + eps). y may be x, with
  // the same stride. Heads are rows of head_dim elements.
  void (*rms_norm)(F32Rows x, size_t cols, const float* w, float eps, F32Output y);

  // Rotates `num_heads` contiguous heads in place: i pairs with i + head_dim / 2. cos, sin:
  // [head_dim / 2], from RopeTable::CosSin. head_dim is even.
  void (*rope)(float* x, size_t num_heads, size_t head_dim, const float* cos, const float* sin);

  // out[i] = silu(gate[i]) * up[i]; gate_up: [gate (n); up (n)]; out: [n], may be gate_up itself.
  void (*swiglu)(const float* gate_up, size_t n, float* out);
  // gpt-oss: gate_up interleaved [n, 2]; gate = min(gate, limit), up clamped to [-limit, limit];
  // out[i] = (gate * sigmoid(1.702 * gate)) * (up + 1). out does not overlap gate_up.
  void (*swiglu_clamped)(const float* gate_up, size_t n, float limit, float* out);

  // scratch: AttentionScratchFloats(task.num_heads, task.head_dim) floats.
  void (*attention)(const AttentionTask& task, float* scratch);

  // --- Vectors of n ---

  void (*exp)(const float* x, size_t n, float* y);                  // y may be x.
  void (*add)(const float* x, size_t n, float* y);                  // y = x + y
  void (*scale)(float a, const float* x, size_t n, float* y);       // y = a * x; y may be x.
  void (*add_scaled)(float a, const float* x, size_t n, float* y);  // y = fma(a, x, y)
  bool (*all_finite)(const float* x, size_t n);                     // No NaN, no infinity.
};

// The table of an instruction set, or null where this build or this CPU lacks it.
const Kernels* KernelsFor(InstructionSet set);

// All tables that run here, slowest first; the first is the scalar one.
std::vector<const Kernels*> AvailableKernels();

// The fastest table that runs here.
const Kernels& BestKernels();

}  // namespace picchio
