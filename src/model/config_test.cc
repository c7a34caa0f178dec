#include "model/config.h"

#include <cmath>
#include <functional>
#include <string>

#include "base/json.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using ::testing::ElementsAre;

Json Published(std::string_view name) {
  auto json = ParseJson(ReadAll(TestData("configs/" + std::string(name))), name);
  return std::move(json).value();
}

Result<ModelConfig> ParseChanged(std::string_view name, const std::function<void(Json&)>& change) {
  Json json = Published(name);
  change(json);
  return ModelConfig::Parse(json.dump(), "config.json");
}

Result<ModelConfig> Qwen(const std::function<void(Json&)>& change) {
  return ParseChanged("qwen3-30b-a3b.json", change);
}

Result<ModelConfig> GptOss(const std::function<void(Json&)>& change) {
  return ParseChanged("gpt-oss-20b.json", change);
}

TEST(ModelConfig, ReadsQwen30b) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Qwen([](Json&) {}));
  EXPECT_EQ(config.architecture, Architecture::kQwen3Moe);
  EXPECT_EQ(config.vocab_size, 151936u);
  EXPECT_EQ(config.hidden_size, 2048u);
  EXPECT_EQ(config.num_hidden_layers, 48u);
  EXPECT_EQ(config.num_attention_heads, 32u);
  EXPECT_EQ(config.num_key_value_heads, 4u);
  EXPECT_EQ(config.head_dim, 128u);
  EXPECT_EQ(config.query_size(), 4096u);
  EXPECT_EQ(config.key_value_size(), 512u);
  EXPECT_EQ(config.intermediate_size, 0u) << "every layer is MoE";
  EXPECT_EQ(config.moe_intermediate_size, 768u);
  EXPECT_EQ(config.num_experts, 128u);
  EXPECT_EQ(config.experts_per_token, 8u);
  EXPECT_EQ(config.max_position_embeddings, 40960u);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_TRUE(config.qk_norm);
  EXPECT_TRUE(config.norm_topk_prob);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_FALSE(config.attention_sinks);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_FALSE(config.router_bias);
  EXPECT_FALSE(config.expert_bias);
  EXPECT_FALSE(config.interleaved_gate_up);
  EXPECT_FALSE(config.clamped_swiglu);
  EXPECT_FALSE(config.checkpoint_experts_mxfp4);
  EXPECT_EQ(config.rope.theta, 1e6);
  EXPECT_FALSE(config.rope.yarn);
  EXPECT_EQ(config.num_moe_layers(), 48u);
  for (const LayerConfig& layer : config.layers) EXPECT_EQ(layer, (LayerConfig{true, 0}));
  EXPECT_THAT(config.eos_token_ids, ElementsAre(151645));
  EXPECT_EQ(config.bos_token_id, 151643);
  EXPECT_EQ(config.pad_token_id, std::nullopt);
}

TEST(ModelConfig, ReadsTheOtherPublishedQwens) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig big, ParseChanged("qwen3-235b-a22b.json", [](Json&) {}));
  EXPECT_EQ(big.num_hidden_layers, 94u);
  EXPECT_EQ(big.hidden_size, 4096u);
  EXPECT_EQ(big.query_size(), 8192u);
  EXPECT_EQ(big.moe_intermediate_size, 1536u);

  // Has no attention_bias, and fields that others have not.
  ASSERT_OK_AND_ASSIGN(const ModelConfig coder,
                       ParseChanged("qwen3-coder-30b-a3b-instruct.json", [](Json&) {}));
  EXPECT_EQ(coder.rope.theta, 1e7);
  EXPECT_EQ(coder.max_position_embeddings, 262144u);
  EXPECT_EQ(coder.bos_token_id, std::nullopt);

  // num_local_experts, dtype and rope_parameters.
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig newer,
      ParseChanged("qwen3-30b-a3b-thinking-2507-transformers5.json", [](Json&) {}));
  EXPECT_EQ(newer.num_experts, 128u);
  EXPECT_EQ(newer.rope, coder.rope);
}

TEST(ModelConfig, ReadsGptOss) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, GptOss([](Json&) {}));
  EXPECT_EQ(config.architecture, Architecture::kGptOss);
  EXPECT_EQ(config.vocab_size, 201088u);
  EXPECT_EQ(config.hidden_size, 2880u);
  EXPECT_EQ(config.num_hidden_layers, 24u);
  EXPECT_EQ(config.query_size(), 4096u);
  EXPECT_EQ(config.key_value_size(), 512u);
  EXPECT_EQ(config.moe_intermediate_size, 2880u);
  EXPECT_EQ(config.num_experts, 32u);
  EXPECT_EQ(config.experts_per_token, 4u);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_FALSE(config.qk_norm);
  EXPECT_TRUE(config.attention_bias);
  EXPECT_TRUE(config.attention_sinks);
  EXPECT_TRUE(config.router_bias);
  EXPECT_TRUE(config.expert_bias);
  EXPECT_TRUE(config.interleaved_gate_up);
  EXPECT_TRUE(config.clamped_swiglu);
  EXPECT_TRUE(config.norm_topk_prob);
  EXPECT_TRUE(config.checkpoint_experts_mxfp4);
  EXPECT_EQ(config.swiglu_limit, 7);
  EXPECT_EQ(config.rope.theta, 150000);
  EXPECT_TRUE(config.rope.yarn);
  EXPECT_EQ(config.rope.factor, 32);
  EXPECT_EQ(config.rope.beta_fast, 32);
  EXPECT_EQ(config.rope.beta_slow, 1);
  EXPECT_FALSE(config.rope.truncate);
  EXPECT_EQ(config.rope.original_max_position_embeddings, 4096u);
  EXPECT_DOUBLE_EQ(config.rope.attention_factor, 1.3465735902799727);
  for (size_t layer = 0; layer < config.layers.size(); ++layer) {
    EXPECT_EQ(config.layers[layer], (LayerConfig{true, layer % 2 == 0 ? 128u : 0u}));
  }
  EXPECT_THAT(config.eos_token_ids, ElementsAre(200002));
  EXPECT_EQ(config.pad_token_id, 199999);

  ASSERT_OK_AND_ASSIGN(const ModelConfig big, ParseChanged("gpt-oss-120b.json", [](Json&) {}));
  EXPECT_EQ(big.num_hidden_layers, 36u);
  EXPECT_EQ(big.num_experts, 128u);
}

TEST(ModelConfig, LoadsTheFixtures) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig tiny,
                       ModelConfig::Load(TestData("fixtures/qwen3_moe_tiny/checkpoint")));
  EXPECT_EQ(tiny.num_moe_layers(), 4u);
  EXPECT_EQ(tiny.num_experts, 12u);

  ASSERT_OK_AND_ASSIGN(const ModelConfig dense,
                       ModelConfig::Load(TestData("fixtures/qwen3_moe_tiny_dense/checkpoint")));
  EXPECT_TRUE(dense.tie_word_embeddings);
  EXPECT_FALSE(dense.norm_topk_prob);
  EXPECT_EQ(dense.intermediate_size, 160u);
  EXPECT_THAT(dense.layers, ElementsAre(LayerConfig{false, 0}, LayerConfig{true, 0},
                                        LayerConfig{false, 0}, LayerConfig{true, 0}));

  ASSERT_OK_AND_ASSIGN(const ModelConfig oss,
                       ModelConfig::Load(TestData("fixtures/gpt_oss_tiny/checkpoint")));
  EXPECT_THAT(oss.layers, ElementsAre(LayerConfig{true, 16}, LayerConfig{true, 0},
                                      LayerConfig{true, 16}, LayerConfig{true, 0}));

  EXPECT_OK(ModelConfig::Load(TestData("fixtures/qwen3_moe_long/checkpoint")));
  EXPECT_OK(ModelConfig::Load(TestData("fixtures/gpt_oss_long/checkpoint")));
  EXPECT_THAT(ModelConfig::Load(TestData("fixtures/deepseek_v3_tiny/checkpoint")),
              Fails(Code::kUnsupported,
                    "\"DeepseekV3ForCausalLM\" is not supported yet; supported: "
                    "Qwen3MoeForCausalLM, GptOssForCausalLM"));
  EXPECT_THAT(ModelConfig::Load(TestData("fixtures")), Fails(Code::kNotFound, "config.json"));
}

TEST(ModelConfig, DefaultsAreTheReferences) {
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig qwen, Qwen([](Json& json) {
        for (const auto* name :
             {"attention_bias", "decoder_sparse_step", "hidden_act", "rms_norm_eps",
              "mlp_only_layers", "norm_topk_prob", "rope_theta", "rope_scaling", "sliding_window",
              "use_sliding_window", "max_window_layers", "tie_word_embeddings", "torch_dtype",
              "head_dim", "eos_token_id", "intermediate_size", "model_type"}) {
          json.erase(name);
        }
      }));
  EXPECT_EQ(qwen.rms_norm_eps, 1e-6);
  EXPECT_FALSE(qwen.norm_topk_prob);
  EXPECT_EQ(qwen.rope.theta, 10000);
  EXPECT_EQ(qwen.head_dim, 2048u / 32);
  EXPECT_EQ(qwen.num_moe_layers(), 48u);
  EXPECT_TRUE(qwen.eos_token_ids.empty());

  ASSERT_OK_AND_ASSIGN(const ModelConfig published, GptOss([](Json&) {}));
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig oss, GptOss([](Json& json) {
        for (const auto* name : {"attention_bias", "head_dim", "hidden_act", "layer_types",
                                 "rms_norm_eps", "rope_scaling", "rope_theta", "sliding_window",
                                 "swiglu_limit", "initial_context_length", "experts_per_token"}) {
          json.erase(name);
        }
      }));
  EXPECT_EQ(oss.rope, published.rope);
  EXPECT_EQ(oss.layers, published.layers);
  EXPECT_EQ(oss.head_dim, 64u);
  EXPECT_EQ(oss.rms_norm_eps, 1e-5);
  EXPECT_EQ(oss.swiglu_limit, 7);
  EXPECT_TRUE(oss.attention_bias);
}

TEST(ModelConfig, RefusesMissingFieldsByName) {
  for (const auto* name : {"architectures", "vocab_size", "hidden_size", "num_hidden_layers",
                           "num_attention_heads", "num_key_value_heads", "max_position_embeddings",
                           "num_experts", "num_experts_per_tok", "moe_intermediate_size"}) {
    EXPECT_THAT(Qwen([&](Json& json) { json.erase(name); }),
                Fails(Code::kCorrupt, std::string("the field ") + name + " is missing"));
    EXPECT_THAT(Qwen([&](Json& json) { json[name] = nullptr; }),
                Fails(Code::kCorrupt, std::string("the field ") + name + " is missing"));
  }
  EXPECT_THAT(GptOss([](Json& json) { json.erase("intermediate_size"); }),
              Fails(Code::kCorrupt, "intermediate_size is missing"));
  EXPECT_THAT(GptOss([](Json& json) { json.erase("quantization_config"); }),
              Fails(Code::kUnsupported, "quantization_config is missing"));
  EXPECT_THAT(Qwen([](Json& json) {
                json.erase("intermediate_size");
                json["mlp_only_layers"] = {3};
              }),
              Fails(Code::kCorrupt, "intermediate_size is missing, and there are dense layers"));
}

TEST(ModelConfig, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(Qwen([](Json& json) { json["logit_softcapping"] = 30.0; }),
              Fails(Code::kUnsupported, "config.json: the field \"logit_softcapping\" (30.0)"));
  EXPECT_THAT(Qwen([](Json& json) {
                json["auto_map"] = {{"AutoModel", "modeling.Own"}};
              }),
              Fails(Code::kUnsupported, "\"auto_map\" (an object)"));
  EXPECT_OK(Qwen([](Json& json) {
    json["logit_softcapping"] = nullptr;
    json["gated_attention"] = false;
    json["_name_or_path"] = "somewhere";
    json["attention_dropout"] = 0.5;
  }));
  // A field of the other architecture is as unknown as any.
  EXPECT_THAT(Qwen([](Json& json) { json["swiglu_limit"] = 7.0; }),
              Fails(Code::kUnsupported, "swiglu_limit"));
}

TEST(ModelConfig, RefusesUnsupportedValues) {
  EXPECT_THAT(Qwen([](Json& json) { json["hidden_act"] = "gelu"; }),
              Fails(Code::kUnsupported, "hidden_act \"gelu\""));
  EXPECT_THAT(Qwen([](Json& json) { json["torch_dtype"] = "float8_e4m3fn"; }),
              Fails(Code::kUnsupported, "torch_dtype \"float8_e4m3fn\""));
  EXPECT_THAT(Qwen([](Json& json) { json["use_qk_norm"] = false; }),
              Fails(Code::kUnsupported, "use_qk_norm = false"));
  EXPECT_THAT(Qwen([](Json& json) { json["qkv_bias"] = true; }),
              Fails(Code::kUnsupported, "qkv_bias = true"));
  EXPECT_THAT(Qwen([](Json& json) { json["shared_expert_intermediate_size"] = 512; }),
              Fails(Code::kUnsupported, "shared experts"));
  EXPECT_THAT(Qwen([](Json& json) {
                json["quantization_config"] = {{"quant_method", "fp8"}};
              }),
              Fails(Code::kUnsupported, "convert the original BF16 checkpoint"));
  EXPECT_THAT(Qwen([](Json& json) { json["head_dim"] = 33; }),
              Fails(Code::kUnsupported, "head_dim of 33"));
  EXPECT_THAT(GptOss([](Json& json) { json["swiglu_alpha"] = 1.0; }),
              Fails(Code::kUnsupported, "swiglu_alpha"));
  EXPECT_THAT(GptOss([](Json& json) { json["quantization_config"]["quant_method"] = "awq"; }),
              Fails(Code::kUnsupported, "quant_method \"awq\""));
  EXPECT_THAT(GptOss([](Json& json) { json["quantization_config"]["group_size"] = 16; }),
              Fails(Code::kUnsupported, "quantization_config: the field \"group_size\""));
  EXPECT_THAT(
      GptOss([](Json& json) {
        json["quantization_config"]["modules_to_not_convert"] = {"model.layers.0.mlp.experts"};
      }),
      Fails(Code::kUnsupported, "modules_to_not_convert"));
  EXPECT_THAT(GptOss([](Json& json) { json["quantization_config"] = "mxfp4"; }),
              Fails(Code::kCorrupt, "quantization_config: found a string, expected an object"));
}

TEST(ModelConfig, RefusesContradictions) {
  EXPECT_THAT(Qwen([](Json& json) { json["num_local_experts"] = 64; }),
              Fails(Code::kCorrupt, "num_experts is 128 but num_local_experts is 64"));
  EXPECT_THAT(GptOss([](Json& json) { json["experts_per_token"] = 2; }),
              Fails(Code::kCorrupt, "num_experts_per_tok is 4 but experts_per_token is 2"));
  EXPECT_THAT(Qwen([](Json& json) { json["model_type"] = "gpt_oss"; }),
              Fails(Code::kCorrupt, "model_type is \"gpt_oss\""));
  EXPECT_THAT(Qwen([](Json& json) { json["num_experts_per_tok"] = 129; }),
              Fails(Code::kCorrupt, "num_experts_per_tok 129 is more than num_experts 128"));
  EXPECT_THAT(Qwen([](Json& json) { json["num_key_value_heads"] = 5; }),
              Fails(Code::kCorrupt, "not a multiple of num_key_value_heads 5"));
  EXPECT_THAT(GptOss([](Json& json) { json["initial_context_length"] = 8192; }),
              Fails(Code::kCorrupt, "initial_context_length 8192"));
}

TEST(ModelConfig, RefusesWrongTypesAndRanges) {
  EXPECT_THAT(
      Qwen([](Json& json) { json["hidden_size"] = "2048"; }),
      Fails(Code::kCorrupt, "hidden_size is \"2048\", expected an integer from 2 to 65536"));
  EXPECT_THAT(Qwen([](Json& json) { json["hidden_size"] = 2048.0; }),
              Fails(Code::kCorrupt, "hidden_size"));
  EXPECT_THAT(Qwen([](Json& json) { json["hidden_size"] = -1; }), Fails(Code::kCorrupt, "is -1"));
  EXPECT_THAT(Qwen([](Json& json) { json["num_hidden_layers"] = 18446744073709551615u; }),
              Fails(Code::kCorrupt, "num_hidden_layers is 18446744073709551615"));
  EXPECT_THAT(Qwen([](Json& json) { json["vocab_size"] = 0; }),
              Fails(Code::kCorrupt, "vocab_size"));
  EXPECT_THAT(Qwen([](Json& json) { json["norm_topk_prob"] = 1; }),
              Fails(Code::kCorrupt, "norm_topk_prob is 1, expected true or false"));
  EXPECT_THAT(Qwen([](Json& json) { json["rms_norm_eps"] = 2; }),
              Fails(Code::kCorrupt, "rms_norm_eps is 2, expected a number from 0 to 1"));
  EXPECT_THAT(Qwen([](Json& json) { json["rms_norm_eps"] = "1e-6"; }),
              Fails(Code::kCorrupt, "rms_norm_eps"));
  EXPECT_THAT(Qwen([](Json& json) { json["hidden_act"] = 3; }),
              Fails(Code::kCorrupt, "hidden_act is 3, expected a string"));
  EXPECT_THAT(Qwen([](Json& json) { json["mlp_only_layers"] = {48}; }),
              Fails(Code::kCorrupt, "mlp_only_layers is 48, expected an integer from 0 to 47"));
  EXPECT_THAT(Qwen([](Json& json) { json["mlp_only_layers"] = 7; }),
              Fails(Code::kCorrupt, "mlp_only_layers is a number"));
  EXPECT_THAT(Qwen([](Json& json) { json["eos_token_id"] = 151936; }),
              Fails(Code::kCorrupt, "eos_token_id"));
  EXPECT_THAT(Qwen([](Json& json) {
                json["bos_token_id"] = {1, 2};
              }),
              Fails(Code::kUnsupported, "bos_token_id is a list of 2 ids"));
  EXPECT_THAT(
      Qwen([](Json& json) { json["architectures"].push_back("GptOssForCausalLM"); }),
      Fails(Code::kUnsupported, R"(has 2 names ("Qwen3MoeForCausalLM", "GptOssForCausalLM"))"));
  EXPECT_THAT(Qwen([](Json& json) { json["architectures"] = Json::array(); }),
              Fails(Code::kCorrupt, "expected a list of one name"));
  EXPECT_THAT(Qwen([](Json& json) { json["architectures"] = "Qwen3MoeForCausalLM"; }),
              Fails(Code::kCorrupt, "architectures is a string"));
  EXPECT_THAT(ModelConfig::Parse("[]", "config.json"),
              Fails(Code::kCorrupt, "config.json: found an array, expected an object"));
  EXPECT_THAT(ModelConfig::Parse("{", "config.json"), Fails(Code::kCorrupt, "not valid JSON"));
}

TEST(ModelConfig, DenseLayersByListAndByStep) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Qwen([](Json& json) {
                         json["num_hidden_layers"] = 6;
                         json["decoder_sparse_step"] = 2;
                         json["mlp_only_layers"] = {3, 0};
                       }));
  std::string kinds;
  for (const LayerConfig& layer : config.layers) kinds += layer.moe ? 'm' : 'd';
  EXPECT_EQ(kinds, "dmdddm");
  EXPECT_EQ(config.intermediate_size, 6144u);
}

TEST(ModelConfig, EosIdsAsList) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Qwen([](Json& json) {
                         json["eos_token_id"] = {151645, 151643};
                       }));
  EXPECT_THAT(config.eos_token_ids, ElementsAre(151645, 151643));
}

TEST(ModelConfig, SlidingWindowOfQwen) {
  const auto windows = [](const ModelConfig& config) {
    std::vector<uint32_t> list;
    for (const LayerConfig& layer : config.layers) list.push_back(layer.sliding_window);
    return list;
  };
  // Not in use: the number is not looked at.
  EXPECT_OK(Qwen([](Json& json) { json["sliding_window"] = 4096; }));
  ASSERT_OK_AND_ASSIGN(const ModelConfig all, Qwen([](Json& json) {
                         json["num_hidden_layers"] = 2;
                         json["use_sliding_window"] = true;
                         json["max_window_layers"] = 0;
                       }));
  EXPECT_THAT(windows(all), ElementsAre(4096, 4096));
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig named, Qwen([](Json& json) {
        json["num_hidden_layers"] = 3;
        json["use_sliding_window"] = true;
        json["sliding_window"] = 512;
        json["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
      }));
  EXPECT_THAT(windows(named), ElementsAre(0, 512, 0));
  EXPECT_THAT(Qwen([](Json& json) { json["use_sliding_window"] = true; }),
              Fails(Code::kUnsupported, "max_window_layers 48 is read differently"));
  EXPECT_THAT(Qwen([](Json& json) {
                json["num_hidden_layers"] = 1;
                json["layer_types"] = {"sliding_attention"};
              }),
              Fails(Code::kCorrupt, "use_sliding_window is not true"));
}

TEST(ModelConfig, LayerTypesAreChecked) {
  EXPECT_THAT(GptOss([](Json& json) { json["num_hidden_layers"] = 23; }),
              Fails(Code::kCorrupt, "layer_types is an array (24 elements)"));
  EXPECT_THAT(GptOss([](Json& json) { json["layer_types"][5] = "linear_attention"; }),
              Fails(Code::kUnsupported, "layer_types[5]"));
  EXPECT_THAT(GptOss([](Json& json) { json["sliding_window"] = nullptr; }),
              Fails(Code::kUnsupported, "sliding_window of null"));
}

TEST(ModelConfig, YarnOfQwenAsItsModelCardSays) {
  const Json yarn = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       Qwen([&](Json& json) { json["rope_scaling"] = yarn; }));
  EXPECT_TRUE(config.rope.yarn);
  EXPECT_EQ(config.rope.factor, 4);
  EXPECT_TRUE(config.rope.truncate);
  EXPECT_EQ(config.rope.beta_fast, 32);
  EXPECT_EQ(config.rope.beta_slow, 1);
  EXPECT_DOUBLE_EQ(config.rope.attention_factor, 0.1 * std::log(4.0) + 1);
  EXPECT_EQ(config.rope.theta, 1e6);

  // The same in the newer spelling, and in both at once.
  Json with_theta = yarn;
  with_theta["rope_theta"] = 1e6;
  ASSERT_OK_AND_ASSIGN(const ModelConfig newer, Qwen([&](Json& json) {
                         json.erase("rope_theta");
                         json["rope_parameters"] = with_theta;
                       }));
  EXPECT_EQ(newer.rope, config.rope);
  ASSERT_OK_AND_ASSIGN(const ModelConfig both, Qwen([&](Json& json) {
                         json["rope_scaling"] = yarn;
                         json["rope_parameters"] = with_theta;
                       }));
  EXPECT_EQ(both.rope, config.rope);
  EXPECT_THAT(Qwen([&](Json& json) {
                json["rope_scaling"] = yarn;
                json["rope_parameters"] = with_theta;
                json["rope_parameters"]["factor"] = 2.0;
              }),
              Fails(Code::kCorrupt, "rope_scaling and rope_parameters contradict"));
}

TEST(ModelConfig, YarnFields) {
  const auto rope = [](const Json& changes) {
    return Qwen([&](Json& json) {
      json["rope_scaling"] = {{"type", "yarn"}, {"factor", 4}};
      json["rope_scaling"].update(changes);
    });
  };
  ASSERT_OK_AND_ASSIGN(const ModelConfig plain, rope(Json::object()));
  EXPECT_EQ(plain.rope.original_max_position_embeddings, 40960u);

  // mscale and mscale_all_dim: (0.1 m ln(factor) + 1) of one over that of the other.
  ASSERT_OK_AND_ASSIGN(const ModelConfig scaled,
                       rope({{"mscale", 0.707}, {"mscale_all_dim", 1.0}}));
  EXPECT_DOUBLE_EQ(scaled.rope.attention_factor,
                   (0.0707 * std::log(4.0) + 1) / (0.1 * std::log(4.0) + 1));
  ASSERT_OK_AND_ASSIGN(const ModelConfig given,
                       rope({{"attention_factor", 1.25}, {"mscale", 0.7}, {"mscale_all_dim", 1}}));
  EXPECT_EQ(given.rope.attention_factor, 1.25);
  ASSERT_OK_AND_ASSIGN(const ModelConfig half, rope({{"mscale", 0.7}}));
  EXPECT_DOUBLE_EQ(half.rope.attention_factor, 0.1 * std::log(4.0) + 1);
  ASSERT_OK_AND_ASSIGN(const ModelConfig ratio,
                       rope({{"factor", nullptr}, {"original_max_position_embeddings", 4096}}));
  EXPECT_EQ(ratio.rope.factor, 10);
  ASSERT_OK_AND_ASSIGN(const ModelConfig one, rope({{"factor", 1}}));
  EXPECT_EQ(one.rope.attention_factor, 1);

  EXPECT_THAT(rope({{"type", "linear"}}), Fails(Code::kUnsupported, "rotary type \"linear\""));
  EXPECT_THAT(rope({{"rope_type", "dynamic"}}), Fails(Code::kCorrupt, "two names of one field"));
  EXPECT_THAT(rope({{"short_factor", {1, 2}}}),
              Fails(Code::kUnsupported, "rope_scaling: the field \"short_factor\""));
  EXPECT_THAT(rope({{"partial_rotary_factor", 0.5}}),
              Fails(Code::kUnsupported, "partial_rotary_factor"));
  EXPECT_THAT(rope({{"factor", 0.5}}), Fails(Code::kCorrupt, "rope_scaling: factor is 0.5"));
  EXPECT_THAT(rope({{"beta_fast", 1}, {"beta_slow", 1}}), Fails(Code::kUnsupported, "beta_fast"));
  EXPECT_THAT(rope({{"rope_theta", 5e5}}), Fails(Code::kCorrupt, "rope_theta is 500000"));
  EXPECT_THAT(rope({{"factor", nullptr}, {"original_max_position_embeddings", 81920}}),
              Fails(Code::kUnsupported, "factor is missing"));
  EXPECT_THAT(Qwen([](Json& json) {
                json["rope_scaling"] = {{"factor", 4.0}};
              }),
              Fails(Code::kUnsupported, "\"factor\""))
      << "a factor without a type would be ignored by the reference";
  EXPECT_THAT(Qwen([](Json& json) { json["rope_scaling"] = "yarn"; }),
              Fails(Code::kCorrupt, "rope_scaling: found a string"));
  EXPECT_THAT(Qwen([](Json& json) { json["rope_theta"] = 1; }),
              Fails(Code::kCorrupt, "rope_theta"));
}

TEST(ModelConfig, NullRotationOfGptOssIsAmbiguous) {
  EXPECT_THAT(GptOss([](Json& json) { json["rope_scaling"] = nullptr; }),
              Fails(Code::kUnsupported, "rope_scaling or rope_parameters is null"));
  ASSERT_OK_AND_ASSIGN(const ModelConfig plain, GptOss([](Json& json) {
                         json["rope_scaling"] = {{"rope_type", "default"}};
                         json.erase("initial_context_length");
                       }));
  EXPECT_FALSE(plain.rope.yarn);
  EXPECT_EQ(plain.rope.theta, 150000);
}

}  // namespace
}  // namespace picchio
