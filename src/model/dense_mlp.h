// The MLP half of a dense layer: down(silu(gate(x)) * up(x)).
#pragma once

#include <cstdint>

#include "model/dense_weights.h"
#include "model/step_context.h"

namespace picchio {

// One thread at a time.
class DenseMlp {
 public:
  // Takes its working memory for steps of up to `max_rows` rows from `carver`: none where the
  // config has no dense layers.
  DenseMlp(const ModelConfig& config, size_t max_rows, Carver& carver);

  // x: [num_rows, hidden_size], the residual stream, to which the layer's output is added.
  void Run(StepContext& step, uint32_t layer, const LayerWeights& weights, float* x);

 private:
  float* normed_;     // [max_rows, hidden_size]
  float* gate_up_;    // [max_rows, 2 * intermediate_size]: a row's gate, then its up.
  float* activated_;  // [max_rows, intermediate_size]
  float* output_;     // [max_rows, hidden_size]
  QuantizedRows quantized_input_;
  QuantizedRows quantized_activated_;
};

}  // namespace picchio
