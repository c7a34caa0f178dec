#include "model/expected_tensors.h"

#include <utility>

namespace picchio {
namespace {

class Lister {
 public:
  Lister(const ModelConfig& config, bool experts) : config_(config), experts_(experts) {}

  std::vector<ExpectedTensor> List() {
    const uint64_t vocab = config_.vocab_size;
    const uint64_t hidden = config_.hidden_size;
    Matrix("model.embed_tokens.weight", vocab, hidden, TensorClass::kEmbedding);
    for (uint32_t layer = 0; layer < config_.num_hidden_layers; ++layer) Layer(layer);
    layer_ = -1;
    prefix_.clear();
    Vector("model.norm.weight", hidden, TensorClass::kNorm);
    if (!config_.tie_word_embeddings) Matrix("lm_head.weight", vocab, hidden, TensorClass::kHead);
    return std::move(tensors_);
  }

 private:
  void Layer(uint32_t layer) {
    layer_ = static_cast<int32_t>(layer);
    prefix_ = "model.layers." + std::to_string(layer) + ".";
    const uint64_t hidden = config_.hidden_size;
    Vector("input_layernorm.weight", hidden, TensorClass::kNorm);
    Projection("self_attn.q_proj", config_.query_size(), hidden);
    Projection("self_attn.k_proj", config_.key_value_size(), hidden);
    Projection("self_attn.v_proj", config_.key_value_size(), hidden);
    Projection("self_attn.o_proj", hidden, config_.query_size());
    if (config_.qk_norm) {
      Vector("self_attn.q_norm.weight", config_.head_dim, TensorClass::kNorm);
      Vector("self_attn.k_norm.weight", config_.head_dim, TensorClass::kNorm);
    }
    if (config_.attention_sinks) {
      Vector("self_attn.sinks", config_.num_attention_heads, TensorClass::kAttention);
    }
    Vector("post_attention_layernorm.weight", hidden, TensorClass::kNorm);
    if (!config_.layers[layer].moe) {
      GateUpDown("mlp.", config_.intermediate_size, TensorClass::kDenseMlp);
      return;
    }
    const std::string router = config_.router_bias ? "mlp.router" : "mlp.gate";
    Matrix(router + ".weight", config_.num_experts, hidden, TensorClass::kRouter);
    if (config_.router_bias) Vector(router + ".bias", config_.num_experts, TensorClass::kRouter);
    if (config_.checkpoint_experts_mxfp4) {
      PackedExperts();
    } else if (experts_) {
      for (expert_ = 0; expert_ < static_cast<int32_t>(config_.num_experts); ++expert_) {
        GateUpDown("mlp.experts." + std::to_string(expert_) + ".", config_.moe_intermediate_size,
                   TensorClass::kExpert);
      }
      expert_ = -1;
    }
  }

  void GateUpDown(const std::string& prefix, uint64_t width, TensorClass tensor_class) {
    Matrix(prefix + "gate_proj.weight", width, config_.hidden_size, tensor_class);
    Matrix(prefix + "up_proj.weight", width, config_.hidden_size, tensor_class);
    Matrix(prefix + "down_proj.weight", config_.hidden_size, width, tensor_class);
  }

  void PackedExperts() {
    const uint64_t experts = config_.num_experts;
    const uint64_t hidden = config_.hidden_size;
    const uint64_t width = config_.moe_intermediate_size;
    const auto packed = [&](const std::string& name, uint64_t rows, uint64_t cols) {
      if (!experts_) return;
      Add(name + "_blocks", {experts, rows, cols / 32, 16}, TensorClass::kExpert).packed = true;
      Add(name + "_scales", {experts, rows, cols / 32}, TensorClass::kExpert).packed = true;
    };
    packed("mlp.experts.gate_up_proj", 2 * width, hidden);
    Add("mlp.experts.gate_up_proj_bias", {experts, 2 * width}, TensorClass::kExpertBias);
    packed("mlp.experts.down_proj", hidden, width);
    Add("mlp.experts.down_proj_bias", {experts, hidden}, TensorClass::kExpertBias);
  }

  void Projection(const std::string& name, uint64_t rows, uint64_t cols) {
    Matrix(name + ".weight", rows, cols, TensorClass::kAttention);
    if (config_.attention_bias) Vector(name + ".bias", rows, TensorClass::kAttention);
  }

  void Matrix(const std::string& name, uint64_t rows, uint64_t cols, TensorClass tensor_class) {
    Add(name, {rows, cols}, tensor_class).quantizable = tensor_class != TensorClass::kRouter;
  }

  void Vector(const std::string& name, uint64_t size, TensorClass tensor_class) {
    Add(name, {size}, tensor_class);
  }

  ExpectedTensor& Add(const std::string& name, std::vector<uint64_t> shape,
                      TensorClass tensor_class) {
    ExpectedTensor& tensor = tensors_.emplace_back();
    tensor.name = prefix_ + name;
    tensor.shape = std::move(shape);
    tensor.tensor_class = tensor_class;
    tensor.layer = layer_;
    tensor.expert = expert_;
    return tensor;
  }

  const ModelConfig& config_;
  bool experts_;
  std::string prefix_;
  int32_t layer_ = -1;
  int32_t expert_ = -1;
  std::vector<ExpectedTensor> tensors_;
};

}  // namespace

std::string_view TensorClassName(TensorClass tensor_class) {
  switch (tensor_class) {
    case TensorClass::kEmbedding:
      return "embedding";
    case TensorClass::kHead:
      return "head";
    case TensorClass::kNorm:
      return "norm";
    case TensorClass::kAttention:
      return "attention";
    case TensorClass::kRouter:
      return "router";
    case TensorClass::kDenseMlp:
      return "dense_mlp";
    case TensorClass::kExpert:
      return "expert";
    case TensorClass::kExpertBias:
      return "expert_bias";
  }
  return "unknown";
}

std::vector<ExpectedTensor> ExpectedCheckpointTensors(const ModelConfig& config) {
  return Lister(config, true).List();
}

std::vector<ExpectedTensor> ExpectedDenseTensors(const ModelConfig& config) {
  return Lister(config, false).List();
}

}  // namespace picchio
