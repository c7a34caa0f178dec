#include "apps/synth/shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/printable.h"

namespace picchio {
namespace {

struct Shape {
  std::string_view name;
  bool gpt_oss;  // Else Qwen3 MoE.
  uint32_t num_hidden_layers;
  uint32_t hidden_size;
  uint32_t num_attention_heads;
  uint32_t num_key_value_heads;
  uint32_t head_dim;
  uint32_t num_experts;
  uint32_t experts_per_token;
  uint32_t expert_width;
  uint32_t dense_width;  // intermediate_size of Qwen3, which no layer of these has.
  uint32_t vocab_size;
  uint32_t max_position_embeddings;
};

// As the config.json of Qwen/Qwen3-30B-A3B, Qwen/Qwen3-235B-A22B, openai/gpt-oss-20b and
// openai/gpt-oss-120b on Hugging Face say; shapes_test.cc holds them against those files.
constexpr std::array kShapes = {
    Shape{"qwen3-30b-a3b", false, 48, 2048, 32, 4, 128, 128, 8, 768, 6144, 151936, 40960},
    Shape{"qwen3-235b-a22b", false, 94, 4096, 64, 4, 128, 128, 8, 1536, 12288, 151936, 40960},
    Shape{"gpt-oss-20b", true, 24, 2880, 64, 8, 64, 32, 4, 2880, 0, 201088, 131072},
    Shape{"gpt-oss-120b", true, 36, 2880, 64, 8, 64, 128, 4, 2880, 0, 201088, 131072},
    // For tests, and to see what synth does within a second.
    Shape{"tiny-qwen3", false, 4, 256, 8, 2, 32, 32, 4, 128, 512, 4096, 8192},
    Shape{"tiny-gpt-oss", true, 4, 256, 8, 2, 32, 16, 2, 128, 0, 4096, 8192},
};

const Shape* Find(std::string_view name) {
  const auto* const found = std::ranges::find(kShapes, name, &Shape::name);
  return found == kShapes.end() ? nullptr : found;
}

Json CommonConfig(const Shape& shape, uint32_t num_layers) {
  return {{"attention_dropout", 0.0},
          {"head_dim", shape.head_dim},
          {"hidden_act", "silu"},
          {"hidden_size", shape.hidden_size},
          {"max_position_embeddings", shape.max_position_embeddings},
          {"num_attention_heads", shape.num_attention_heads},
          {"num_experts_per_tok", shape.experts_per_token},
          {"num_hidden_layers", num_layers},
          {"num_key_value_heads", shape.num_key_value_heads},
          {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"},
          {"vocab_size", shape.vocab_size}};
}

Json Qwen3Config(const Shape& shape) {
  return {{"architectures", {"Qwen3MoeForCausalLM"}},
          {"model_type", "qwen3_moe"},
          {"attention_bias", false},
          {"decoder_sparse_step", 1},
          {"intermediate_size", shape.dense_width},
          {"mlp_only_layers", Json::array()},
          {"moe_intermediate_size", shape.expert_width},
          {"norm_topk_prob", true},
          {"num_experts", shape.num_experts},
          {"rms_norm_eps", 1e-6},
          {"rope_scaling", nullptr},
          {"rope_theta", 1e6},
          {"use_sliding_window", false}};
}

Json GptOssConfig(const Shape& shape, uint32_t num_layers) {
  Json layer_types = Json::array();
  for (uint32_t layer = 0; layer < num_layers; ++layer) {
    layer_types.push_back(layer % 2 == 0 ? "sliding_attention" : "full_attention");
  }
  return {{"architectures", {"GptOssForCausalLM"}},
          {"model_type", "gpt_oss"},
          {"attention_bias", true},
          {"initial_context_length", 4096},
          {"intermediate_size", shape.expert_width},
          {"layer_types", std::move(layer_types)},
          {"num_local_experts", shape.num_experts},
          {"quantization_config", {{"quant_method", "mxfp4"}}},
          {"rms_norm_eps", 1e-5},
          {"rope_scaling",
           {{"beta_fast", 32.0},
            {"beta_slow", 1.0},
            {"factor", 32.0},
            {"original_max_position_embeddings", 4096},
            {"rope_type", "yarn"},
            {"truncate", false}}},
          {"rope_theta", 150000},
          {"sliding_window", 128},
          {"swiglu_limit", 7.0}};
}

}  // namespace

std::vector<std::string> ShapeNames() {
  std::vector<std::string> names;
  names.reserve(std::size(kShapes));
  for (const Shape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

bool IsShapeName(std::string_view name) { return Find(name) != nullptr; }

Result<std::string> ShapeConfig(std::string_view name, std::optional<uint32_t> num_layers,
                                int32_t eos_token_id) {
  const Shape* shape = Find(name);
  if (shape == nullptr) {
    return Error(Code::kInvalidArgument, "{} is no shape; there are {}", Quoted(name),
                 fmt::join(ShapeNames(), ", "));
  }
  const uint32_t layers = num_layers.value_or(shape->num_hidden_layers);
  if (layers == 0 || layers > shape->num_hidden_layers) {
    return Error(Code::kInvalidArgument, "--layers is {}, and {} has {} layers", layers, name,
                 shape->num_hidden_layers);
  }
  Json config = CommonConfig(*shape, layers);
  config.update(shape->gpt_oss ? GptOssConfig(*shape, layers) : Qwen3Config(*shape));
  config["eos_token_id"] = eos_token_id;
  return config.dump(2) + "\n";
}

}  // namespace picchio
