#include "model/config.h"

#include "model/config_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

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
  EXPECT_FALSE(config.clamped_swiglu);
  EXPECT_FALSE(config.checkpoint_experts_mxfp4);
  EXPECT_EQ(config.rope.theta, 1e6);
  EXPECT_FALSE(config.rope.yarn);
  EXPECT_EQ(config.num_moe_layers(), 48u);
  for (const LayerConfig& layer : config.layers) EXPECT_EQ(layer, (LayerConfig{true, 0}));
  EXPECT_THAT(config.eos_token_ids, testing::ElementsAre(151645));
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
  EXPECT_THAT(config.eos_token_ids, testing::ElementsAre(200002));
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
  EXPECT_THAT(dense.layers, testing::ElementsAre(LayerConfig{false, 0}, LayerConfig{true, 0},
                                                 LayerConfig{false, 0}, LayerConfig{true, 0}));

  ASSERT_OK_AND_ASSIGN(const ModelConfig oss,
                       ModelConfig::Load(TestData("fixtures/gpt_oss_tiny/checkpoint")));
  EXPECT_THAT(oss.layers, testing::ElementsAre(LayerConfig{true, 16}, LayerConfig{true, 0},
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
  EXPECT_THAT(config.eos_token_ids, testing::ElementsAre(151645, 151643));
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
  EXPECT_THAT(windows(all), testing::ElementsAre(4096, 4096));
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig named, Qwen([](Json& json) {
        json["num_hidden_layers"] = 3;
        json["use_sliding_window"] = true;
        json["sliding_window"] = 512;
        json["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
      }));
  EXPECT_THAT(windows(named), testing::ElementsAre(0, 512, 0));
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

}  // namespace
}  // namespace picchio
