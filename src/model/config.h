// What a model's config.json says about its mathematics, checked and with every default filled in.
//
// Reads `Qwen3MoeForCausalLM` and `GptOssForCausalLM` as published. A field or value that would
// change the mathematics and is not supported is refused by name. So is a field that this version
// does not know, unless it is null, false, or on a list of fields known to be harmless
// (docs/models.md). Shapes have no defaults; what has one takes that of the reference
// implementation (Hugging Face transformers, models/qwen3_moe and models/gpt_oss,
// configuration_*.py, as cited in config.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "model/rope_config.h"

namespace picchio {

enum class Architecture : uint8_t {
  kQwen3Moe,  // Qwen3MoeForCausalLM
  kGptOss,    // GptOssForCausalLM
};

// As config.json spells it: "Qwen3MoeForCausalLM".
std::string_view ArchitectureName(Architecture architecture);

struct LayerConfig {
  bool moe = true;              // false: a dense MLP of intermediate_size.
  uint32_t sliding_window = 0;  // A query sees itself and window - 1 positions before it; 0: all.

  bool operator==(const LayerConfig&) const = default;
};

struct ModelConfig {
  Architecture architecture = Architecture::kQwen3Moe;

  uint32_t vocab_size = 0;  // Rows of embedding and head; may exceed the tokenizer's.
  uint32_t hidden_size = 0;
  uint32_t num_hidden_layers = 0;
  uint32_t num_attention_heads = 0;
  uint32_t num_key_value_heads = 0;  // Divides num_attention_heads.
  uint32_t head_dim = 0;             // Even.
  uint32_t intermediate_size = 0;    // Width of the dense MLP layers; 0 where there are none.
  uint32_t moe_intermediate_size = 0;
  uint32_t num_experts = 0;
  uint32_t experts_per_token = 0;
  uint32_t max_position_embeddings = 0;
  double rms_norm_eps = 0;

  bool qk_norm = false;         // RMS norm of each query and key head before rotation.
  bool attention_bias = false;  // q, k, v and o projections.
  bool attention_sinks = false;
  bool tie_word_embeddings = false;  // The head is the embedding.
  // Router: qwen3 takes the softmax over all experts and then, if norm_topk_prob, makes the chosen
  // ones sum to 1; gpt-oss (always true here) has a bias and the softmax over the chosen ones
  // alone.
  bool norm_topk_prob = false;
  bool router_bias = false;
  bool expert_bias = false;
  // Clamped SwiGLU of gpt-oss: gate = min(gate, limit), up = clamp(up, -limit, limit),
  // gate * sigmoid(1.702 * gate) * (up + 1), where even rows of gate_up are gate and odd ones up.
  // Without it: gate * sigmoid(gate) * up, all gate rows first and then all up.
  bool clamped_swiglu = false;
  double swiglu_limit = 0;

  RopeConfig rope;
  std::vector<LayerConfig> layers;  // [num_hidden_layers]

  // The checkpoint keeps its experts as MXFP4 blocks and scales, else as BF16 (or F16, F32)
  // matrices.
  bool checkpoint_experts_mxfp4 = false;

  std::vector<int32_t> eos_token_ids;  // As listed; may be empty.
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> pad_token_id;

  // Parses the text of a config.json that messages call `where`. Whatever the text, the result's
  // sizes are within the limits below and their products fit 64 bits.
  static Result<ModelConfig> Parse(std::string_view text, std::string_view where);
  // Reads FOLDER/config.json.
  static Result<ModelConfig> Load(const Path& folder);

  uint32_t num_moe_layers() const;
  uint32_t query_size() const { return num_attention_heads * head_dim; }  // Rows of q_proj.
  uint32_t key_value_size() const {
    return num_key_value_heads * head_dim;
  }  // Rows of k_proj, v_proj.

  // Far above any published model, low enough for the arithmetic of sizes.
  static constexpr uint32_t kMaxVocabSize = 1u << 24;
  static constexpr uint32_t kMaxHiddenSize = 1u << 16;
  static constexpr uint32_t kMaxIntermediateSize = 1u << 18;
  static constexpr uint32_t kMaxLayers = 1024;
  static constexpr uint32_t kMaxHeads = 1024;
  static constexpr uint32_t kMaxHeadDim = 1024;
  static constexpr uint32_t kMaxExperts = 4096;
  static constexpr uint32_t kMaxPositions = 1u << 21;  // As far as RopeTable is exact.
};

}  // namespace picchio
