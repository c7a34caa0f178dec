// Matrix products of any kind of weights, several at a time, cut into pieces for a team of threads.
#pragma once

#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace picchio {

using WeightMatrix = std::variant<Bf16Matrix, F32Matrix, Int8Matrix, Int4Matrix, Mxfp4Matrix>;

size_t RowsOf(const WeightMatrix& weights);
size_t ColsOf(const WeightMatrix& weights);

// Whether a product with these weights takes quantised activations under --compute int8, and of
// which kind. BF16 and F32 weights never do.
struct Quantization {
  bool quantized = false;
  ActivationKind kind = ActivationKind::kForInt4;
};
Quantization QuantizationOf(const WeightMatrix& weights);

// y[t, r] = sum of w[r, c] * x[t, c] + bias[r] for all rows r of w and t of x.
struct Product {
  const WeightMatrix* weights = nullptr;
  const float* bias = nullptr;  // [rows] or null: added last, one rounding.
  F32Rows x;                  // Of w's columns, contiguous in a row. Not looked at if `quantized`.
  QuantizedRows quantized_x;  // Of the kind that QuantizationOf(weights) names.
  bool quantized = false;
  F32Output y;
};

// Runs lists of products. Their results do not depend on the number of threads or on what else is
// in the list. Borrows both arguments; one thread at a time.
class ProductRunner {
 public:
  ProductRunner(const Kernels& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  // The products' outputs do not overlap each other or any input.
  void Run(std::span<const Product> products);

 private:
  struct Piece {
    const Product* product;
    RowRange rows;
    size_t first_x;
    size_t num_x;
  };

  void RunPiece(const Piece& piece) const;

  const Kernels& kernels_;
  ThreadPool& pool_;
  std::vector<Piece> pieces_;
};

}  // namespace picchio
