#include "model/model_sizes.h"

#include "model/expected_tensors.h"
#include "model/kv_cache.h"

namespace picchio {
namespace {

uint64_t Elements(const ExpectedTensor& tensor) {
  uint64_t elements = 1;
  for (const uint64_t size : tensor.shape) elements *= size;
  return elements;
}

}  // namespace

ModelSizes SizesOf(const ModelConfig& config) {
  ModelSizes sizes;
  for (const ExpectedTensor& tensor : ExpectedDenseTensors(config)) {
    const uint64_t elements = Elements(tensor);
    sizes.dense_parameters += elements;
    if (tensor.tensor_class == TensorClass::kExpertBias) {
      sizes.active_parameters += elements / config.num_experts * config.experts_per_token;
    } else if (tensor.tensor_class == TensorClass::kEmbedding && !config.tie_word_embeddings) {
      sizes.active_parameters += config.hidden_size;
    } else {
      sizes.active_parameters += elements;
    }
  }
  sizes.expert_parameters = uint64_t{3} * config.hidden_size * config.moe_intermediate_size;
  sizes.num_expert_records = uint64_t{config.num_moe_layers()} * config.num_experts;
  sizes.records_per_token = uint64_t{config.num_moe_layers()} * config.experts_per_token;
  sizes.total_parameters =
      sizes.dense_parameters + sizes.num_expert_records * sizes.expert_parameters;
  sizes.active_parameters += sizes.records_per_token * sizes.expert_parameters;

  const uint64_t layer_bytes = uint64_t{2} * config.key_value_size() * sizeof(float);
  for (const LayerConfig& layer : config.layers) {
    if (layer.sliding_window == 0) {
      sizes.kv_bytes_per_position += layer_bytes;
    } else {
      sizes.kv_window_bytes += layer_bytes * (layer.sliding_window + KvCache::kSlidingChunk - 1);
    }
  }
  return sizes;
}

}  // namespace picchio
