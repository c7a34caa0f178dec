#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/exp.h"
#include "kernels/scalar.h"

namespace picchio {

float AttentionScale(size_t head_dim) { return 1.0F / std::sqrt(static_cast<float>(head_dim)); }

namespace scalar {
namespace {

// What has been seen so far: the largest score, the sum of e^(score - max), and in `out` the sum of
// those times the values.
struct State {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0;
};

// Positions [begin, end) of one block: their scores, then its own max, sum and weighted values.
void MergeBlock(const AttentionTask& task, const float* q, size_t begin, size_t end, float* o,
                State& state, float* out) {
  const size_t d = task.head_dim;
  float p[kAttentionBlock];
  float block_max = -std::numeric_limits<float>::infinity();
  for (size_t pos = begin; pos < end; ++pos) {
    const float* k = task.kv.k + pos % task.kv.capacity * task.kv.row_stride;
    p[pos - begin] = Dot16(q, k, d) * task.scale;
    block_max = p[pos - begin] > block_max ? p[pos - begin] : block_max;
  }

  float lanes[16] = {};
  std::fill(o, o + d, 0.0F);
  for (size_t pos = begin; pos < end; ++pos) {
    const float* v = task.kv.v + pos % task.kv.capacity * task.kv.row_stride;
    const float weight = picchio::Exp(p[pos - begin] - block_max);
    lanes[pos % 16] += weight;
    for (size_t i = 0; i < d; ++i) o[i] = std::fma(weight, v[i], o[i]);
  }
  for (size_t width = 8; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) lanes[i] = lanes[i] + lanes[i + width];
  }

  const float merged_max = block_max > state.max ? block_max : state.max;
  const float old_factor = picchio::Exp(state.max - merged_max);
  const float new_factor = picchio::Exp(block_max - merged_max);
  state.max = merged_max;
  state.sum = std::fma(state.sum, old_factor, lanes[0] * new_factor);
  for (size_t i = 0; i < d; ++i) out[i] = std::fma(out[i], old_factor, o[i] * new_factor);
}

// A block of one score and no value.
void MergeSink(float sink, size_t d, State& state, float* out) {
  const float merged_max = sink > state.max ? sink : state.max;
  const float old_factor = picchio::Exp(state.max - merged_max);
  const float new_factor = picchio::Exp(sink - merged_max);
  state.max = merged_max;
  state.sum = std::fma(state.sum, old_factor, new_factor);
  for (size_t i = 0; i < d; ++i) out[i] = out[i] * old_factor;
}

}  // namespace

void Attention(const AttentionTask& task, float* scratch) {
  const size_t d = task.head_dim;
  for (size_t h = 0; h < task.num_heads; ++h) {
    float* out = task.out + h * d;
    std::fill(out, out + d, 0.0F);
    State state;
    for (size_t begin = task.first_position; begin <= task.position;) {
      const size_t block_end = (begin / kAttentionBlock + 1) * kAttentionBlock;
      const size_t end = std::min(block_end, task.position + 1);
      MergeBlock(task, task.q + h * d, begin, end, scratch, state, out);
      begin = end;
    }
    if (task.sinks != nullptr) MergeSink(task.sinks[h], d, state, out);
    for (size_t i = 0; i < d; ++i) out[i] = out[i] / state.sum;
  }
}

}  // namespace scalar
}  // namespace picchio
