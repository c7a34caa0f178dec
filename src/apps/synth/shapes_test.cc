#include "apps/synth/shapes.h"

#include "model/config.h"
#include "support/test_support.h"

namespace picchio {
namespace {

ModelConfig ConfigOf(std::string_view shape, std::optional<uint32_t> layers = std::nullopt) {
  auto text = ShapeConfig(shape, layers, 7);
  EXPECT_OK(text);
  auto config = ModelConfig::Parse(*text, shape);
  EXPECT_OK(config);
  return *config;
}

// Against the config.json of the models as they are published.
TEST(Shapes, HaveThePublishedMathematics) {
  for (const std::string name :
       {"qwen3-30b-a3b", "qwen3-235b-a22b", "gpt-oss-20b", "gpt-oss-120b"}) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const ModelConfig published,
                         ModelConfig::Parse(ReadAll(TestData("configs/" + name + ".json")), name));
    const ModelConfig config = ConfigOf(name);
    EXPECT_EQ(config.architecture, published.architecture);
    EXPECT_EQ(config.vocab_size, published.vocab_size);
    EXPECT_EQ(config.hidden_size, published.hidden_size);
    EXPECT_EQ(config.num_hidden_layers, published.num_hidden_layers);
    EXPECT_EQ(config.num_attention_heads, published.num_attention_heads);
    EXPECT_EQ(config.num_key_value_heads, published.num_key_value_heads);
    EXPECT_EQ(config.head_dim, published.head_dim);
    EXPECT_EQ(config.intermediate_size, published.intermediate_size);
    EXPECT_EQ(config.moe_intermediate_size, published.moe_intermediate_size);
    EXPECT_EQ(config.num_experts, published.num_experts);
    EXPECT_EQ(config.experts_per_token, published.experts_per_token);
    EXPECT_EQ(config.max_position_embeddings, published.max_position_embeddings);
    EXPECT_EQ(config.rms_norm_eps, published.rms_norm_eps);
    EXPECT_EQ(config.qk_norm, published.qk_norm);
    EXPECT_EQ(config.attention_bias, published.attention_bias);
    EXPECT_EQ(config.attention_sinks, published.attention_sinks);
    EXPECT_EQ(config.tie_word_embeddings, published.tie_word_embeddings);
    EXPECT_EQ(config.norm_topk_prob, published.norm_topk_prob);
    EXPECT_EQ(config.router_bias, published.router_bias);
    EXPECT_EQ(config.expert_bias, published.expert_bias);
    EXPECT_EQ(config.swiglu_limit, published.swiglu_limit);
    EXPECT_TRUE(config.rope == published.rope);
    EXPECT_TRUE(config.layers == published.layers);
    EXPECT_EQ(config.checkpoint_experts_mxfp4, published.checkpoint_experts_mxfp4);
  }
}

TEST(Shapes, FewerLayersAreTheFirst) {
  const ModelConfig whole = ConfigOf("gpt-oss-20b");
  const ModelConfig part = ConfigOf("gpt-oss-20b", 3);
  ASSERT_EQ(part.num_hidden_layers, 3U);
  EXPECT_TRUE(std::equal(part.layers.begin(), part.layers.end(), whole.layers.begin()));
  EXPECT_EQ(part.eos_token_ids, std::vector<int32_t>{7});
  EXPECT_THAT(ShapeConfig("gpt-oss-20b", 25, 7), Fails(Code::kInvalidArgument, "24 layers"));
  EXPECT_THAT(ShapeConfig("gpt-oss-20b", 0, 7), Fails(Code::kInvalidArgument, "--layers is 0"));
}

TEST(Shapes, OthersAreRefusedWithTheList) {
  EXPECT_FALSE(IsShapeName("qwen3"));
  EXPECT_THAT(ShapeConfig("qwen3", std::nullopt, 7),
              Fails(Code::kInvalidArgument, "qwen3-30b-a3b, qwen3-235b-a22b"));
  for (const std::string& name : ShapeNames()) EXPECT_TRUE(IsShapeName(name));
}

}  // namespace
}  // namespace picchio
