// Attention over a vector class V (avx2_vector.h). All query heads of a key/value head go through
// the cache together, so that each key and value is read once for all of them.
#pragma once

#include <cstddef>

#include "kernels/attention.h"
#include "kernels/vector_exp.h"
#include "kernels/vector_rows.h"
#include "kernels/vector_weights.h"

namespace picchio::vector {

inline constexpr float kMinusInfinity = -__builtin_inff();

// Positions [begin, end) of one block; their slots in the cache start at `slot` and wrap around.
struct AttentionBlock {
  size_t begin;
  size_t end;
  size_t slot;
};

// Where the block's position `pos` has its key and value.
template <typename V>
[[gnu::always_inline]] inline size_t RowAt(const AttentionTask& task, const AttentionBlock& block,
                                           size_t pos) {
  const size_t slot = block.slot + (pos - block.begin);
  return (slot < task.kv.capacity ? slot : slot - task.kv.capacity) * task.kv.row_stride;
}

// scores[h * 64 + pos % 64] = Dot16(q[h], k[pos]) * scale for `H` heads.
template <typename V, size_t H>
void Scores(const AttentionTask& task, const AttentionBlock& block, size_t first_head,
            float* scores) {
  using F = typename V::F;
  const size_t d = task.head_dim;
  const float* q = task.q + first_head * d;
  for (size_t pos = block.begin; pos < block.end; ++pos) {
    const float* k = task.kv.k + RowAt<V>(task, block, pos);
    F acc[H];
#pragma GCC unroll 4
    for (size_t h = 0; h < H; ++h) acc[h] = V::Set(0);
    size_t i = 0;
    for (; i + 16 <= d; i += 16) {
      const F key = V::Load(k + i);
#pragma GCC unroll 4
      for (size_t h = 0; h < H; ++h) acc[h] = V::Fma(V::Load(q + h * d + i), key, acc[h]);
    }
#pragma GCC unroll 4
    for (size_t h = 0; h < H; ++h) {
      if (i < d) {  // See DotBlock about lanes without an element.
        const F key = LoadUpTo16<V>(k + i, d - i);
        const F query = LoadUpTo16<V>(q + h * d + i, d - i);
        acc[h] = V::Select(V::FirstLanes(d - i), V::Fma(query, key, acc[h]), acc[h]);
      }
      scores[(first_head + h) * kAttentionBlock + pos % kAttentionBlock] =
          V::Fold(acc[h]) * task.scale;
    }
  }
}

// The 64 scores of one head become their weights e^(score - max). Slots without a position hold
// -infinity and get weight +0, which changes no lane of the sum.
template <typename V>
void Weigh(float* scores, float& max, float& sum) {
  using F = typename V::F;
  F largest = V::Set(kMinusInfinity);
  for (size_t i = 0; i < kAttentionBlock; i += 16) {
    const F s = V::Load(scores + i);
    largest = V::Select(V::Less(largest, s), s, largest);
  }
  alignas(64) float lanes[16];
  V::Store(lanes, largest);
  max = lanes[0];
  for (size_t i = 1; i < 16; ++i) max = max < lanes[i] ? lanes[i] : max;

  F total = V::Set(0);
  for (size_t i = 0; i < kAttentionBlock; i += 16) {
    const F p = Exp<V>(V::Sub(V::Load(scores + i), V::Set(max)));
    V::Store(scores + i, p);
    total = V::Add(total, p);
  }
  sum = V::Fold(total);
}

// o[h, i] = sum of weights[h, pos] * v[pos, i] in ascending position, for `H` heads and up to 16 i.
template <typename V, size_t H>
void AddValues(const AttentionTask& task, const AttentionBlock& block, size_t first_head, size_t i,
               const float* weights, float* o) {
  using F = typename V::F;
  const size_t d = task.head_dim;
  F acc[H];
#pragma GCC unroll 4
  for (size_t h = 0; h < H; ++h) acc[h] = V::Set(0);
  for (size_t pos = block.begin; pos < block.end; ++pos) {
    const F value = LoadUpTo16<V>(task.kv.v + RowAt<V>(task, block, pos) + i, d - i);
    const float* at = weights + first_head * kAttentionBlock + pos % kAttentionBlock;
#pragma GCC unroll 4
    for (size_t h = 0; h < H; ++h) {
      acc[h] = V::Fma(V::Set(at[h * kAttentionBlock]), value, acc[h]);
    }
  }
#pragma GCC unroll 4
  for (size_t h = 0; h < H; ++h) StoreUpTo16<V>(o + (first_head + h) * d + i, d - i, acc[h]);
}

// Heads in groups of four, the rest one by one.
template <typename V>
void ScoreBlock(const AttentionTask& task, const AttentionBlock& block, float* scores) {
  size_t h = 0;
  for (; h + 4 <= task.num_heads; h += 4) Scores<V, 4>(task, block, h, scores);
  for (; h < task.num_heads; ++h) Scores<V, 1>(task, block, h, scores);
}

template <typename V>
void AddValueBlock(const AttentionTask& task, const AttentionBlock& block, const float* weights,
                   float* o) {
  for (size_t i = 0; i < task.head_dim; i += 16) {
    size_t h = 0;
    for (; h + 4 <= task.num_heads; h += 4) AddValues<V, 4>(task, block, h, i, weights, o);
    for (; h < task.num_heads; ++h) AddValues<V, 1>(task, block, h, i, weights, o);
  }
}

// What is known of each head after some blocks, and the factors that the last one was merged with.
struct HeadStates {
  float* max;  // [num_heads], as the others
  float* sum;  // of e^(score - max)
  float* old_factor;
  float* new_factor;
};

// Merges a block (or the sink) with this maximum and sum.
template <typename V>
void Merge(float max, float sum, const HeadStates& states, size_t h) {
  const float merged = states.max[h] < max ? max : states.max[h];
  const float old_factor = V::First(Exp<V>(V::Set(states.max[h] - merged)));
  const float new_factor = V::First(Exp<V>(V::Set(max - merged)));
  states.max[h] = merged;
  states.sum[h] = __builtin_fmaf(states.sum[h], old_factor, sum * new_factor);
  states.old_factor[h] = old_factor;
  states.new_factor[h] = new_factor;
}

template <typename V>
void MergeValues(float old_factor, float new_factor, const float* o, size_t d, float* out) {
  const typename V::F old_factors = V::Set(old_factor);
  const typename V::F new_factors = V::Set(new_factor);
  for (size_t i = 0; i < d; i += 16) {
    const typename V::F scaled = V::Mul(LoadUpTo16<V>(o + i, d - i), new_factors);
    StoreUpTo16<V>(out + i, d - i, V::Fma(LoadUpTo16<V>(out + i, d - i), old_factors, scaled));
  }
}

// out = out * factor / sum
template <typename V>
void Divide(float factor, float sum, size_t d, float* out) {
  const typename V::F factors = V::Set(factor);
  const typename V::F sums = V::Set(sum);
  for (size_t i = 0; i < d; i += 16) {
    const typename V::F scaled = V::Mul(LoadUpTo16<V>(out + i, d - i), factors);
    StoreUpTo16<V>(out + i, d - i, V::Div(scaled, sums));
  }
}

template <typename V>
void AttendBlock(const AttentionTask& task, const AttentionBlock& block, const HeadStates& states,
                 float* scores, float* o) {
  const size_t d = task.head_dim;
  if (block.end - block.begin < kAttentionBlock) {
    for (size_t i = 0; i < task.num_heads * kAttentionBlock; ++i) scores[i] = kMinusInfinity;
  }
  ScoreBlock<V>(task, block, scores);
  for (size_t h = 0; h < task.num_heads; ++h) {
    float max;
    float sum;
    Weigh<V>(scores + h * kAttentionBlock, max, sum);
    Merge<V>(max, sum, states, h);
  }
  AddValueBlock<V>(task, block, scores, o);
  for (size_t h = 0; h < task.num_heads; ++h) {
    MergeValues<V>(states.old_factor[h], states.new_factor[h], o + h * d, d, task.out + h * d);
  }
}

template <typename V>
void Attention(const AttentionTask& task, float* scratch) {
  const size_t n = task.num_heads;
  const size_t d = task.head_dim;
  float* scores = scratch;                   // [n, 64]
  float* o = scratch + n * kAttentionBlock;  // [n, d]
  float* rest = o + n * d;
  const HeadStates states{rest, rest + n, rest + 2 * n, rest + 3 * n};
  for (size_t h = 0; h < n; ++h) {
    states.max[h] = kMinusInfinity;
    states.sum[h] = 0;
  }
  __builtin_memset(task.out, 0, n * d * sizeof(float));

  AttentionBlock block{task.first_position, 0, task.first_position % task.kv.capacity};
  while (block.begin <= task.position) {
    const size_t block_end = (block.begin / kAttentionBlock + 1) * kAttentionBlock;
    block.end = block_end < task.position + 1 ? block_end : task.position + 1;
    AttendBlock<V>(task, block, states, scores, o);
    block.slot = (block.slot + (block.end - block.begin)) % task.kv.capacity;
    block.begin = block.end;
  }
  for (size_t h = 0; h < n; ++h) {
    if (task.sinks != nullptr) Merge<V>(task.sinks[h], 1, states, h);
    Divide<V>(task.sinks != nullptr ? states.old_factor[h] : 1, states.sum[h], d, task.out + h * d);
  }
}

}  // namespace picchio::vector
