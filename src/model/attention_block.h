// The attention half of a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/rope.h"
#include "model/dense_weights.h"
#include "model/step_context.h"

namespace picchio {

// How many of the `group` query heads that share a key/value head go through the cache together:
// all of them where so many pairs of rows and key/value heads occupy `num_threads`; the largest
// equal part of them that does where they do not, as in decoding a single sequence; at least one.
size_t QueryHeadsTogether(size_t num_pairs, size_t group, int num_threads);

// x -> norm -> q, k, v -> (q/k norm) -> rotation -> cache -> attention -> o. One thread at a time.
class AttentionBlock {
 public:
  // Takes its working memory for steps of up to `max_rows` rows from `carver`.
  AttentionBlock(const ModelConfig& config, size_t max_rows, int num_threads, Carver& carver);

  // Prepares the rotation of the step's rows; before the first Run of a step.
  void Begin(StepContext& step, const RopeTable& rope);

  // Appends the rows' keys and values to the caches, without committing them. x: [num_rows,
  // hidden_size], the residual stream; y alike: what is to be added to it.
  void Run(StepContext& step, uint32_t layer, const LayerWeights& weights, const float* x,
           float* y);

 private:
  void Project(StepContext& step, const LayerWeights& weights, const float* x);
  void NormAndRotate(StepContext& step, const LayerWeights& weights);
  void Attend(StepContext& step, uint32_t layer, const LayerWeights& weights);

  float* normed_;    // [max_rows, hidden_size]
  float* q_;         // [max_rows, query_size]
  float* k_;         // [max_rows, key_value_size]
  float* v_;         // [max_rows, key_value_size]
  float* attended_;  // [max_rows, query_size]
  float* cos_;       // [max_rows, head_dim / 2]
  float* sin_;       // [max_rows, head_dim / 2]
  float* scratch_;   // [num_threads, scratch_floats_]
  size_t scratch_floats_;
  QuantizedRows quantized_input_;     // of normed_, for INT8 projections
  QuantizedRows quantized_attended_;  // of attended_
  std::vector<uint32_t> round_;       // Rows whose keys and values are in the cache by now.
};

}  // namespace picchio
