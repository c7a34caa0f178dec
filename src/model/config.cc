#include "model/config.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/printable.h"
#include "base/units.h"
#include "kernels/rope.h"
#include "model/field_reader.h"

namespace picchio {
namespace {

// Fields that change nothing in the forward pass: training (dropout, initialisation, the router's
// auxiliary loss), what a call returns, bookkeeping of the tool that wrote the file.
constexpr std::array<std::string_view, 23> kHarmless = {
    "_attn_implementation_autoset",
    "_name_or_path",
    "attention_dropout",
    "chunk_size_feed_forward",
    "finetuning_task",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "label2id",
    "name_or_path",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "problem_type",
    "return_dict",
    "router_aux_loss_coef",
    "router_z_loss_coef",
    "task_specific_params",
    "tokenizer_class",
    "transformers_version",
    "unsloth_fixed",
    "use_cache",
    "use_return_dict",
};

constexpr std::string_view kSupported = "Qwen3MoeForCausalLM, GptOssForCausalLM";

Result<Architecture> ReadArchitecture(FieldReader& fields) {
  const Json* names = fields.Find({"architectures"});
  if (names == nullptr) {
    return Error(Code::kCorrupt, "{}: the field architectures is missing", fields.where());
  }
  if (names->is_array() && names->size() > 1) {
    std::string listed;
    for (const Json& name : *names) {
      if (listed.size() > 200) break;
      listed += (listed.empty() ? "" : ", ") + (name.is_string()
                                                    ? Quoted(name.get_ref<const std::string&>())
                                                    : std::string(JsonTypeName(name)));
    }
    return Error(Code::kUnsupported,
                 "{}: architectures has {} names ({}), expected the one that the weights are of",
                 fields.where(), names->size(), listed);
  }
  if (!names->is_array() || names->empty() || !names->front().is_string()) {
    return Error(Code::kCorrupt, "{}: architectures is {}, expected a list of one name",
                 fields.where(), JsonTypeName(*names));
  }
  const auto name = names->front().get<std::string>();
  for (const auto& [architecture, model_type] : {std::pair(Architecture::kQwen3Moe, "qwen3_moe"),
                                                 std::pair(Architecture::kGptOss, "gpt_oss")}) {
    if (name != ArchitectureName(architecture)) continue;
    const std::string found = fields.TextOr(model_type, "model_type");
    if (found == model_type) return architecture;
    return Error(Code::kCorrupt, "{}: model_type is {}, but {} has \"{}\"", fields.where(),
                 Quoted(found), name, model_type);
  }
  return Error(Code::kUnsupported, "{}: {} is not supported yet; supported: {}", fields.where(),
               Quoted(name), kSupported);
}

// What both architectures have.
void ReadCommon(FieldReader& fields, ModelConfig& config) {
  config.vocab_size = fields.Count({"vocab_size"}, 1, ModelConfig::kMaxVocabSize);
  config.hidden_size = fields.Count({"hidden_size"}, 2, ModelConfig::kMaxHiddenSize);
  config.num_hidden_layers = fields.Count({"num_hidden_layers"}, 1, ModelConfig::kMaxLayers);
  config.num_attention_heads = fields.Count({"num_attention_heads"}, 1, ModelConfig::kMaxHeads);
  config.num_key_value_heads = fields.Count({"num_key_value_heads"}, 1, ModelConfig::kMaxHeads);
  config.max_position_embeddings =
      fields.Count({"max_position_embeddings"}, 1, ModelConfig::kMaxPositions);
  config.num_experts =
      fields.Count({"num_experts", "num_local_experts"}, 1, ModelConfig::kMaxExperts);
  config.experts_per_token =
      fields.Count({"num_experts_per_tok", "experts_per_token"}, 1, ModelConfig::kMaxExperts);
  config.tie_word_embeddings = fields.FlagOr(false, "tie_word_embeddings");

  const std::string activation = fields.TextOr("silu", "hidden_act");
  if (activation != "silu" && activation != "swish") {
    fields.Fail(Error(Code::kUnsupported, "{}: hidden_act {} is not supported; supported: silu",
                      fields.where(), Quoted(activation)));
  }
  // The type that the reference computes in. Ours is fixed, so these only have to be floating point
  // as the supported checkpoints are.
  for (const std::string_view name : {"torch_dtype", "dtype"}) {
    const std::string type = fields.TextOr("bfloat16", name);
    if (type != "bfloat16" && type != "float16" && type != "float32") {
      fields.Fail(Error(Code::kUnsupported,
                        "{}: {} {} is not supported; supported: bfloat16, float16, float32",
                        fields.where(), name, Quoted(type)));
    }
  }

  config.eos_token_ids = fields.Ids("eos_token_id", config.vocab_size);
  const auto one_id = [&](std::string_view name) -> std::optional<int32_t> {
    const std::vector<int32_t> ids = fields.Ids(name, config.vocab_size);
    if (ids.size() > 1) {
      fields.Fail(Error(Code::kUnsupported, "{}: {} is a list of {} ids, expected one",
                        fields.where(), name, ids.size()));
    }
    return ids.empty() ? std::nullopt : std::optional(ids.front());
  };
  config.bos_token_id = one_id("bos_token_id");
  config.pad_token_id = one_id("pad_token_id");
}

void ReadHeadDim(FieldReader& fields, uint32_t fallback, ModelConfig& config) {
  config.head_dim = fields.CountOr(fallback, {"head_dim"}, 2, ModelConfig::kMaxHeadDim);
  if (config.head_dim < 2 || config.head_dim > ModelConfig::kMaxHeadDim ||
      config.head_dim % 2 != 0) {
    fields.Fail(Error(Code::kUnsupported,
                      "{}: a head_dim of {} is not supported, expected an even number from 2 to {}",
                      fields.where(), config.head_dim, ModelConfig::kMaxHeadDim));
  }
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    fields.Fail(Error(Code::kCorrupt,
                      "{}: num_attention_heads {} is not a multiple of num_key_value_heads {}",
                      fields.where(), config.num_attention_heads, config.num_key_value_heads));
  }
  if (config.experts_per_token > config.num_experts) {
    fields.Fail(Error(Code::kCorrupt, "{}: num_experts_per_tok {} is more than num_experts {}",
                      fields.where(), config.experts_per_token, config.num_experts));
  }
}

// `layer_types`, one name a layer; false where the field is absent.
bool ReadLayerTypes(FieldReader& fields, uint32_t window, ModelConfig& config) {
  const Json* types = fields.Find({"layer_types"});
  if (types == nullptr) return false;
  if (!types->is_array() || types->size() != config.num_hidden_layers) {
    fields.Fail(
        Error(Code::kCorrupt,
              "{}: layer_types is {} ({} elements), expected a list of num_hidden_layers {}",
              fields.where(), JsonTypeName(*types), types->size(), config.num_hidden_layers));
    return true;
  }
  for (size_t layer = 0; layer < types->size(); ++layer) {
    const Json& type = (*types)[layer];
    if (type == "sliding_attention") {
      config.layers[layer].sliding_window = window;
    } else if (type != "full_attention") {
      fields.Fail(
          Error(Code::kUnsupported,
                "{}: layer_types[{}] is neither \"full_attention\" nor \"sliding_attention\"",
                fields.where(), layer));
    }
  }
  return true;
}

void ReadQwenSlidingWindow(FieldReader& fields, ModelConfig& config) {
  // configuration_qwen3_moe.py: sliding_window counts only with use_sliding_window; defaults
  // 4096, 28.
  const bool use = fields.FlagOr(false, "use_sliding_window");
  const uint32_t window =
      use ? fields.CountOr(4096, {"sliding_window"}, 1, ModelConfig::kMaxPositions) : 0;
  const uint32_t first = fields.CountOr(28, {"max_window_layers"}, 0, ModelConfig::kMaxPositions);
  if (!use) {
    fields.Find({"sliding_window"});
    if (ReadLayerTypes(fields, 1, config)) {
      for (const LayerConfig& layer : config.layers) {
        if (layer.sliding_window == 0) continue;
        fields.Fail(Error(Code::kCorrupt,
                          "{}: layer_types has sliding layers, but use_sliding_window is not true",
                          fields.where()));
      }
    }
    return;
  }
  if (ReadLayerTypes(fields, window, config)) return;
  // transformers 4.51 lets the first max_window_layers layers see everything, later versions none.
  if (first > 0) {
    fields.Fail(
        Error(Code::kUnsupported,
              "{}: use_sliding_window with max_window_layers {} is read differently by versions "
              "of the reference; name each layer's kind in layer_types",
              fields.where(), first));
  }
  for (LayerConfig& layer : config.layers) layer.sliding_window = window;
}

// models/qwen3_moe/configuration_qwen3_moe.py and modeling_qwen3_moe.py of transformers.
void ReadQwen3Moe(FieldReader& fields, ModelConfig& config) {
  config.qk_norm = true;
  config.norm_topk_prob = fields.FlagOr(false, "norm_topk_prob");
  config.attention_bias = fields.FlagOr(false, "attention_bias");
  config.rms_norm_eps = fields.NumberOr(1e-6, "rms_norm_eps", 0, 1);
  config.moe_intermediate_size =
      fields.Count({"moe_intermediate_size"}, 1, ModelConfig::kMaxIntermediateSize);
  // head_dim: modeling_qwen3_moe.py falls back to hidden_size / num_attention_heads.
  ReadHeadDim(fields, config.hidden_size / config.num_attention_heads, config);
  config.rope = ReadRopeConfig(fields, {.theta = 10000, .rotation = {}, .null_means_plain = true},
                               config.max_position_embeddings);

  // A layer is MoE if it is not in mlp_only_layers and (index + 1) % decoder_sparse_step == 0.
  const uint32_t step = fields.CountOr(1, {"decoder_sparse_step"}, 1, ModelConfig::kMaxLayers);
  const std::vector<uint32_t> dense =
      fields.Counts("mlp_only_layers", config.num_hidden_layers, ModelConfig::kMaxLayers);
  config.layers.resize(config.num_hidden_layers);
  for (uint32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    config.layers[layer].moe =
        (layer + 1) % step == 0 && std::find(dense.begin(), dense.end(), layer) == dense.end();
  }
  const uint32_t width =
      fields.CountOr(0, {"intermediate_size"}, 1, ModelConfig::kMaxIntermediateSize);
  if (config.num_moe_layers() < config.num_hidden_layers) {
    if (width == 0) {
      fields.Fail(Error(Code::kCorrupt,
                        "{}: the field intermediate_size is missing, and there are dense layers",
                        fields.where()));
    }
    config.intermediate_size = width;
  }
  ReadQwenSlidingWindow(fields, config);

  // Written by some published checkpoints of this architecture; the code of the reference has no
  // other values.
  const auto fixed = [&](std::string_view name, bool value) {
    if (fields.FlagOr(value, name) != value) {
      fields.Fail(
          Error(Code::kUnsupported, "{}: {} = {} is not supported", fields.where(), name, !value));
    }
  };
  fixed("use_qk_norm", true);
  fixed("qkv_bias", false);
  if (fields.CountOr(0, {"shared_expert_intermediate_size"}, 0, UINT32_MAX) != 0) {
    fields.Fail(Error(Code::kUnsupported, "{}: shared experts are not supported", fields.where()));
  }
  if (fields.Has("quantization_config") || fields.Has("quantization")) {
    fields.Fail(Error(Code::kUnsupported,
                      "{}: the checkpoint is quantised, which is not supported for {}; convert the "
                      "original BF16 checkpoint",
                      fields.where(), ArchitectureName(config.architecture)));
  }
}

void ReadMxfp4(FieldReader& config) {
  const Json* found = config.Find({"quantization_config"});
  if (found == nullptr) {
    config.Fail(Error(Code::kUnsupported,
                      "{}: the field quantization_config is missing; of this architecture only the "
                      "published MXFP4 checkpoints are supported",
                      config.where()));
    return;
  }
  FieldReader fields(*found, config.where() + ": quantization_config");
  const std::string method = fields.TextOr("", "quant_method");
  if (method != "mxfp4") {
    fields.Fail(Error(Code::kUnsupported, "{}: quant_method {} is not supported; supported: mxfp4",
                      fields.where(), Quoted(method)));
  }
  // Names of modules that stayed as they were. The experts alone are expected to be converted.
  if (const Json* names = fields.Find({"modules_to_not_convert"})) {
    bool good = names->is_array();
    for (const Json& name : *names) {
      good = good && name.is_string() &&
             name.get_ref<const std::string&>().find("experts") == std::string::npos;
    }
    if (!good) {
      fields.Fail(
          Error(Code::kUnsupported,
                "{}: modules_to_not_convert is not a list of names of modules other than the "
                "experts",
                fields.where()));
    }
  }
  config.Fail(fields.Finish());
}

// models/gpt_oss/configuration_gpt_oss.py and modeling_gpt_oss.py of transformers; the model.py of
// openai/gpt-oss for swiglu's alpha and limit.
void ReadGptOss(FieldReader& fields, ModelConfig& config) {
  config.attention_sinks = true;
  config.router_bias = true;
  config.norm_topk_prob = true;
  config.expert_bias = true;
  config.clamped_swiglu = true;
  config.checkpoint_experts_mxfp4 = true;
  config.attention_bias = fields.FlagOr(true, "attention_bias");
  config.rms_norm_eps = fields.NumberOr(1e-5, "rms_norm_eps", 0, 1);
  if (fields.NumberOr(1.702, "swiglu_alpha", 0, 1e3) != 1.702) {
    fields.Fail(Error(Code::kUnsupported, "{}: a swiglu_alpha other than 1.702 is not supported",
                      fields.where()));
  }
  config.swiglu_limit = fields.NumberOr(7, "swiglu_limit", 1e-3, 1e6);
  // Here intermediate_size is the width of one expert; there are no dense layers.
  config.moe_intermediate_size =
      fields.Count({"intermediate_size"}, 1, ModelConfig::kMaxIntermediateSize);
  ReadHeadDim(fields, 64, config);

  RopeDefaults rope{.theta = 150000, .rotation = {}, .null_means_plain = false};
  rope.rotation.yarn = true;
  rope.rotation.factor = 32;
  rope.rotation.attention_factor = YarnAttentionFactor(rope.rotation.factor);
  rope.rotation.truncate = false;
  rope.rotation.original_max_position_embeddings = 4096;
  config.rope = ReadRopeConfig(fields, rope, config.max_position_embeddings);
  // OpenAI's own name for what rope_scaling calls original_max_position_embeddings.
  const uint32_t initial =
      fields.CountOr(config.rope.original_max_position_embeddings, {"initial_context_length"}, 1,
                     ModelConfig::kMaxPositions);
  if (config.rope.yarn && initial != config.rope.original_max_position_embeddings) {
    fields.Fail(
        Error(Code::kCorrupt,
              "{}: initial_context_length {} contradicts original_max_position_embeddings {}",
              fields.where(), initial, config.rope.original_max_position_embeddings));
  }

  config.layers.resize(config.num_hidden_layers);
  const uint32_t window = fields.CountOr(128, {"sliding_window"}, 1, ModelConfig::kMaxPositions);
  if (fields.HasNull("sliding_window")) {
    fields.Fail(
        Error(Code::kUnsupported, "{}: a sliding_window of null is not supported", fields.where()));
  }
  if (!ReadLayerTypes(fields, window, config)) {
    for (size_t layer = 0; layer < config.layers.size(); layer += 2) {
      config.layers[layer].sliding_window = window;
    }
  }
  ReadMxfp4(fields);
}

}  // namespace

std::string_view ArchitectureName(Architecture architecture) {
  return architecture == Architecture::kQwen3Moe ? "Qwen3MoeForCausalLM" : "GptOssForCausalLM";
}

Result<ModelConfig> ModelConfig::Parse(std::string_view text, std::string_view where) {
  PICCHIO_ASSIGN_OR_RETURN(const Json json, ParseJson(text, where));
  FieldReader fields(json, std::string(where));
  PICCHIO_RETURN_IF_ERROR(fields.status());
  ModelConfig config;
  PICCHIO_ASSIGN_OR_RETURN(config.architecture, ReadArchitecture(fields));
  ReadCommon(fields, config);
  // Sizes that failed are at their lower bounds, so what follows is safe, if of no use.
  if (config.architecture == Architecture::kQwen3Moe) {
    ReadQwen3Moe(fields, config);
  } else {
    ReadGptOss(fields, config);
  }
  fields.Ignore(kHarmless);
  PICCHIO_RETURN_IF_ERROR(fields.Finish());
  return config;
}

Result<ModelConfig> ModelConfig::Load(const Path& folder) {
  const Path path = folder / "config.json";
  PICCHIO_ASSIGN_OR_RETURN(const std::string text, ReadFileToString(path, 1_MiB));
  return Parse(text, PathText(path));
}

uint32_t ModelConfig::num_moe_layers() const {
  return static_cast<uint32_t>(std::count_if(layers.begin(), layers.end(),
                                             [](const LayerConfig& layer) { return layer.moe; }));
}

}  // namespace picchio
