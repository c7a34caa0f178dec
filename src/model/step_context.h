// What the parts of a step share: the rows that are under way, and where they work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "base/units.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/dense_weights.h"
#include "model/kv_cache.h"
#include "model/products.h"
#include "model/step_observer.h"

namespace picchio {

// How experts, and INT8 weights, meet their activations.
enum class Compute : uint8_t {
  kInt8,  // Activations quantised to 8 bits in groups.
  kF32,   // Activations and decoded weights in F32: for comparison with reference implementations.
};

// Deals out pieces of one allocation at multiples of 64 bytes. Over null it only counts.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <typename T>
  T* Take(uint64_t count) {
    const uint64_t offset = bytes_;
    bytes_ += RoundUp(count * sizeof(T), 64);
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + offset);
  }
  QuantizedRows TakeQuantized(ActivationKind kind, size_t cols, size_t num_rows) {
    std::byte* memory = Take<std::byte>(QuantizedRows::BytesFor(kind, cols, num_rows));
    return {kind, cols, num_rows, memory};
  }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  uint64_t bytes_ = 0;
};

// One sequence's part of a step: rows [first_row, first_row + num_rows), at positions from the
// length of its cache on.
struct SequenceRows {
  KvCache* kv = nullptr;
  size_t input_idx = 0;  // Among those that the step began with.
  size_t first_row = 0;
  size_t num_rows = 0;
};

struct StepContext {
  const ModelConfig& config;
  const Kernels& kernels;
  ThreadPool& pool;
  ProductRunner products;
  Compute compute;

  // Of the current step.
  std::vector<SequenceRows> sequences;
  std::vector<uint32_t> sequence_of_row;
  size_t num_rows = 0;
  StepObserver* observer = nullptr;

  uint32_t PositionOf(size_t row) const {
    const SequenceRows& sequence = sequences[sequence_of_row[row]];
    return sequence.kv->length() + static_cast<uint32_t>(row - sequence.first_row);
  }

  // Calls body(row_begin, row_end, thread_idx) for pieces of [0, num_rows), by this thread alone
  // where there are few.
  template <typename Body>
  void ForRows(Body&& body) {
    constexpr size_t kGrain = 8;
    if (num_rows <= kGrain) {
      body(size_t{0}, num_rows, 0);
    } else {
      pool.ParallelFor(num_rows, kGrain, body);
    }
  }

  // norm of rows of hidden_size: y = x / sqrt(mean(x^2) + eps) * w.
  void Norm(const float* x, const float* weight, float* y) {
    const size_t n = config.hidden_size;
    ForRows([&](size_t begin, size_t end, int) {
      kernels.rms_norm({x + begin * n, end - begin, n}, n, weight,
                       static_cast<float>(config.rms_norm_eps), {y + begin * n, n});
    });
  }

  // Quantises the first num_rows rows of x, contiguous rows of out.cols() elements.
  void Quantize(const float* x, const QuantizedRows& out) {
    const size_t n = out.cols();
    ForRows([&](size_t begin, size_t end, int) {
      kernels.quantize({x + begin * n, end - begin, n}, out.Slice(begin, end - begin));
    });
  }

  // The product of all rows of x (contiguous) with `linear`, rows of y `y_stride` apart.
  // quantized_x is x quantised for INT8 weights, looked at where the weights are INT8 and the
  // compute is kInt8.
  Product ProductOf(const Linear& linear, const float* x, const QuantizedRows& quantized_x,
                    float* y, size_t y_stride) const;
};

}  // namespace picchio
