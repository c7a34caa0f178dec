// Attention of one position over the key/value cache, as the table of kernels takes it.
#pragma once

#include <cstddef>

namespace picchio {

// Positions are grouped in blocks of this many by their absolute number, wherever a window starts.
inline constexpr size_t kAttentionBlock = 64;

// Keys and values of one key/value head in F32. The row of position p is at
// k + (p % capacity) * row_stride, likewise for v: a sliding layer keeps its window in a ring, a
// full layer has the capacity of its context. Other element types get views of their own beside
// this one.
struct KvView {
  const float* k = nullptr;
  const float* v = nullptr;
  size_t row_stride = 0;  // Floats from one slot to the next.
  size_t capacity = 1;    // Slots, at least as many as positions attended to.
};

// One position's query heads that share a key/value head. q, out and the cache do not overlap.
struct AttentionTask {
  const float* q = nullptr;  // [num_heads, head_dim], contiguous
  size_t num_heads = 0;
  size_t head_dim = 0;
  size_t first_position = 0;  // Of the window; 0 where attention is full.
  size_t position = 0;        // The query's own, the last one attended to; >= first_position.
  float scale = 0;  // Scores are multiplied by it: AttentionScale(head_dim) in both models.
  const float* sinks = nullptr;  // [num_heads] a logit each that joins the sum only; or null.
  KvView kv;
  float* out = nullptr;  // [num_heads, head_dim], contiguous
};

// 1 / sqrt(head_dim), the root and the division each rounded to F32.
float AttentionScale(size_t head_dim);

// Floats that attention needs to work in, any content before, none of value after. Independent of
// the number of positions.
constexpr size_t AttentionScratchFloats(size_t num_heads, size_t head_dim) {
  return num_heads * (kAttentionBlock + head_dim + 4);
}

}  // namespace picchio
