// The part of a model that stays in memory: everything but the routed experts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "format/tensor_directory.h"
#include "model/config.h"
#include "model/products.h"

namespace picchio {

// A projection with its bias.
struct Linear {
  WeightMatrix weights;
  const float* bias = nullptr;  // [rows], or null.
};

// Vectors are F32 and null where the architecture has none.
struct LayerWeights {
  const float* input_norm = nullptr;           // [hidden_size]
  const float* post_attention_norm = nullptr;  // [hidden_size]
  Linear q;                                    // [query_size, hidden_size]
  Linear k;                                    // [key_value_size, hidden_size]
  Linear v;                                    // [key_value_size, hidden_size]
  Linear o;                                    // [hidden_size, query_size]
  const float* q_norm = nullptr;               // [head_dim]
  const float* k_norm = nullptr;               // [head_dim]
  const float* sinks = nullptr;                // [num_attention_heads]
  // MoE layers.
  Linear router;                          // [num_experts, hidden_size]
  const float* gate_up_biases = nullptr;  // [num_experts, 2 * moe_intermediate_size]
  const float* down_biases = nullptr;     // [num_experts, hidden_size]
  // Dense layers.
  Linear gate;  // [intermediate_size, hidden_size]
  Linear up;    // [intermediate_size, hidden_size]
  Linear down;  // [hidden_size, intermediate_size]
};

// Owns what its views refer to. Immutable after loading, so any thread may read.
struct DenseWeights {
  WeightMatrix embedding;       // [vocab_size, hidden_size]
  WeightMatrix head;            // [vocab_size, hidden_size]; the embedding where they are tied.
  const float* norm = nullptr;  // [hidden_size]
  std::vector<LayerWeights> layers;

  std::vector<AlignedBuffer> memory;
  uint64_t bytes = 0;  // Of `memory`.
};

// Told how many bytes more have been loaded. May be empty.
using LoadedBytes = std::function<void(uint64_t bytes)>;

// Reads the tensors that ExpectedDenseTensors names. What each may be: a matrix of a product BF16,
// F32, F16 (widened to F32), or I8 with its rows' scales in the F32 tensor NAME.qs; the router the
// same but not I8; vectors and the experts' biases BF16, F32 or F16 (kept as F32). `expert_biases`
// false leaves the last out: the records carry them. Tensors of the experts are passed over. Fails
// with kNotFound where a tensor is missing, kCorrupt where one has another shape or type, holds a
// NaN or an infinity, or is none that this config has, kResourceExhausted where memory is short;
// each names the tensor. `on_loaded` is told of every piece, by any of the pool's threads.
Result<DenseWeights> LoadDenseWeights(const TensorDirectory& tensors, const ModelConfig& config,
                                      bool expert_biases, ThreadPool& pool,
                                      const LoadedBytes& on_loaded = {});

// DenseWeights::bytes of what LoadDenseWeights would load, without reading or allocating any of it.
// Fails as that does with kNotFound, and with kCorrupt for all but values.
Result<uint64_t> DenseWeightBytes(const TensorDirectory& tensors, const ModelConfig& config,
                                  bool expert_biases);

}  // namespace picchio
