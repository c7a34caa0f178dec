#include "model/rope_config.h"

#include <cmath>

#include "model/config_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

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
