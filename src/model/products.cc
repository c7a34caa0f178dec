#include "model/products.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"

namespace picchio {
namespace {

// Rows of x that a piece takes at most: with some thousand columns they stay in a core's own cache
// while the weights pass by.
constexpr size_t kMaxXRows = 64;
// Rows of weights are dealt out in multiples of this, so that threads do not write to one cache
// line.
constexpr size_t kRowStep = 16;
// Multiply-adds below which waking other threads costs more than it saves.
constexpr size_t kSmallWork = size_t{1} << 16;

size_t NumXRows(const Product& product) {
  return product.quantized ? product.quantized_x.num_rows() : product.x.num_rows;
}

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

}  // namespace

size_t RowsOf(const WeightMatrix& weights) {
  return std::visit([](const auto& matrix) { return matrix.rows; }, weights);
}

size_t ColsOf(const WeightMatrix& weights) {
  return std::visit([](const auto& matrix) { return matrix.cols; }, weights);
}

Quantization QuantizationOf(const WeightMatrix& weights) {
  return std::visit(Overloaded{[](const Int4Matrix&) {
                                 return Quantization{true, ActivationKind::kForInt4};
                               },
                               [](const Int8Matrix&) {
                                 return Quantization{true, ActivationKind::kForInt8};
                               },
                               [](const Mxfp4Matrix&) {
                                 return Quantization{true, ActivationKind::kForMxfp4};
                               },
                               [](const auto&) { return Quantization{}; }},
                    weights);
}

void ProductRunner::Run(std::span<const Product> products) {
  pieces_.clear();
  size_t work = 0;
  size_t total_rows = 0;
  for (const Product& product : products) {
    const size_t rows = RowsOf(*product.weights);
    total_rows += rows;
    work += rows * ColsOf(*product.weights) * NumXRows(product);
  }
  const auto num_threads = static_cast<size_t>(pool_.num_threads());
  const bool alone = num_threads == 1 || work < kSmallWork;
  // A few pieces for each thread even the load out.
  const size_t step = alone ? total_rows
                            : std::clamp(RoundUp(total_rows / (num_threads * 4) + 1, kRowStep),
                                         kRowStep, size_t{256});
  for (const Product& product : products) {
    const size_t rows = RowsOf(*product.weights);
    const size_t num_x = NumXRows(product);
    for (size_t first_x = 0; first_x < num_x; first_x += kMaxXRows) {
      for (size_t row = 0; row < rows; row += step) {
        pieces_.push_back({&product,
                           {row, std::min(rows, row + step)},
                           first_x,
                           std::min(kMaxXRows, num_x - first_x)});
      }
    }
  }
  if (alone) {
    for (const Piece& piece : pieces_) RunPiece(piece);
    return;
  }
  pool_.ParallelFor(pieces_.size(), 1, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) RunPiece(pieces_[i]);
  });
}

void ProductRunner::RunPiece(const Piece& piece) const {
  const Product& product = *piece.product;
  const F32Output y{product.y.data + piece.first_x * product.y.stride, product.y.stride};
  if (product.quantized) {
    const QuantizedRows x = product.quantized_x.Slice(piece.first_x, piece.num_x);
    std::visit(Overloaded{[&](const Int4Matrix& w) { kernels_.matmul_int4(w, piece.rows, x, y); },
                          [&](const Int8Matrix& w) { kernels_.matmul_int8(w, piece.rows, x, y); },
                          [&](const Mxfp4Matrix& w) { kernels_.matmul_mxfp4(w, piece.rows, x, y); },
                          [&](const auto&) { PICCHIO_CHECK(false); }},
               *product.weights);
  } else {
    const F32Rows x{product.x.data + piece.first_x * product.x.stride, piece.num_x,
                    product.x.stride};
    std::visit(
        Overloaded{[&](const Bf16Matrix& w) { kernels_.matmul_bf16(w, piece.rows, x, y); },
                   [&](const F32Matrix& w) { kernels_.matmul_f32(w, piece.rows, x, y); },
                   [&](const Int8Matrix& w) { kernels_.matmul_int8_f32(w, piece.rows, x, y); },
                   [&](const Int4Matrix& w) { kernels_.matmul_int4_f32(w, piece.rows, x, y); },
                   [&](const Mxfp4Matrix& w) { kernels_.matmul_mxfp4_f32(w, piece.rows, x, y); }},
        *product.weights);
  }
  if (product.bias == nullptr) return;
  const size_t count = piece.rows.end - piece.rows.begin;
  for (size_t t = 0; t < piece.num_x; ++t) {
    kernels_.add(product.bias + piece.rows.begin, count, y.data + t * y.stride + piece.rows.begin);
  }
}

}  // namespace picchio
