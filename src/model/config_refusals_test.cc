// What of a config.json is refused, by the name of its field.
#include "model/config_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

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

}  // namespace
}  // namespace picchio
