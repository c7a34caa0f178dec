// Which tensors a checkpoint of a config holds: names as published, shapes, kinds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace picchio {

// What a tensor is for; decides how it is stored and reported.
enum class TensorClass : uint8_t {
  kEmbedding,
  kHead,
  kNorm,       // Layer norms, q/k norms, the final norm.
  kAttention,  // Projections, their biases, sinks.
  kRouter,     // Weight and bias.
  kDenseMlp,
  kExpert,      // Matrices of the routed experts, or their blocks and scales.
  kExpertBias,  // All experts of a layer in one tensor.
};

std::string_view TensorClassName(TensorClass tensor_class);  // "embedding", "dense_mlp", ...

struct ExpectedTensor {
  std::string name;
  std::vector<uint64_t> shape;
  TensorClass tensor_class = TensorClass::kNorm;
  bool packed = false;  // U8 (MXFP4 blocks and scales); else a float type.
  // 2-dimensional weight of a product: what `--dense int8` or `--head int8` quantises per row. Not
  // the router, norms, biases and sinks.
  bool quantizable = false;
  int32_t layer = -1;   // -1: belongs to no layer.
  int32_t expert = -1;  // -1: to no expert, or to all of its layer's.
};

// Every tensor of a published checkpoint, each once: embedding, layers in order (attention, norms,
// router, experts in order or the dense MLP), final norm, and the head unless it is tied.
//
//     qwen3    experts.{E}.{gate,up}_proj.weight    [moe_intermediate_size, hidden_size]
//              experts.{E}.down_proj.weight         [hidden_size, moe_intermediate_size]
//     gpt-oss  experts.gate_up_proj_blocks       U8 [num_experts, 2 * width, hidden / 32, 16]
//              experts.gate_up_proj_scales       U8 [num_experts, 2 * width, hidden / 32]
//              experts.down_proj_blocks, _scales U8  alike: hidden rows of width elements
//              experts.gate_up_proj_bias            [num_experts, 2 * width]
//              experts.down_proj_bias               [num_experts, hidden]
//
// Sizes of MXFP4 rows that are not multiples of 32 are the caller's to refuse.
std::vector<ExpectedTensor> ExpectedCheckpointTensors(const ModelConfig& config);

// The same without the experts' matrices: what dense.safetensors holds beside the store.
std::vector<ExpectedTensor> ExpectedDenseTensors(const ModelConfig& config);

}  // namespace picchio
