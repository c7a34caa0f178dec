// Writes a checkpoint of any size in the published layout, filled with valid random weights at the
// disk's speed: for measuring conversions without a download. The text such a model writes is
// noise.
//
//   make_checkpoint OUT_DIR KIND GIGABYTES [SEED]
//
// qwen3 and gpt-oss have Qwen3-30B-A3B's and gpt-oss-20b's shape, with as many layers as the size
// asks for (at least one); tiny-qwen3 and tiny-gpt-oss are the same with every other size small.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "format/safetensors.h"
#include "model/config.h"
#include "model/expected_tensors.h"

namespace picchio {
namespace {

constexpr uint64_t kShardBytes = 4'000'000'000;
constexpr size_t kNoiseBytes = 32_MiB;

struct Kind {
  bool gpt_oss = false;
  bool tiny = false;
};

std::optional<Kind> KindOf(std::string_view name) {
  for (const bool gpt_oss : {false, true}) {
    for (const bool tiny : {false, true}) {
      const std::string_view family = gpt_oss ? "gpt-oss" : "qwen3";
      if (name == fmt::format("{}{}", tiny ? "tiny-" : "", family)) return Kind{gpt_oss, tiny};
    }
  }
  return std::nullopt;
}

// MXFP4 asks for multiples of 32.
void Shrink(Json& config) {
  config["hidden_size"] = 64;
  config["head_dim"] = 16;
  config["num_attention_heads"] = 4;
  config["num_key_value_heads"] = 2;
  config["vocab_size"] = 256;
  config["eos_token_id"] = 255;
  for (const char* size : {"intermediate_size", "moe_intermediate_size"}) {
    if (config.contains(size)) config[size] = 32;
  }
  for (const char* experts : {"num_experts", "num_local_experts"}) {
    if (config.contains(experts)) config[experts] = 8;
  }
  for (const char* id : {"bos_token_id", "pad_token_id"}) {
    if (config.contains(id)) config[id] = 254;
  }
}

std::string ConfigText(Kind kind, uint32_t layers) {
  Json config;
  if (kind.gpt_oss) {
    Json types = Json::array();
    for (uint32_t i = 0; i < layers; ++i) {
      types.push_back(i % 2 == 0 ? "sliding_attention" : "full_attention");
    }
    config = {{"architectures", {"GptOssForCausalLM"}},
              {"model_type", "gpt_oss"},
              {"attention_bias", true},
              {"experts_per_token", 4},
              {"num_experts_per_tok", 4},
              {"num_local_experts", 32},
              {"head_dim", 64},
              {"hidden_act", "silu"},
              {"hidden_size", 2880},
              {"intermediate_size", 2880},
              {"initial_context_length", 4096},
              {"layer_types", types},
              {"max_position_embeddings", 131072},
              {"num_attention_heads", 64},
              {"num_key_value_heads", 8},
              {"num_hidden_layers", layers},
              {"eos_token_id", 200002},
              {"pad_token_id", 199999},
              {"quantization_config", {{"quant_method", "mxfp4"}}},
              {"rms_norm_eps", 1e-05},
              {"rope_scaling",
               {{"beta_fast", 32.0},
                {"beta_slow", 1.0},
                {"factor", 32.0},
                {"original_max_position_embeddings", 4096},
                {"rope_type", "yarn"},
                {"truncate", false}}},
              {"rope_theta", 150000},
              {"sliding_window", 128},
              {"swiglu_limit", 7.0},
              {"tie_word_embeddings", false},
              {"vocab_size", 201088}};
  } else {
    config = {{"architectures", {"Qwen3MoeForCausalLM"}},
              {"model_type", "qwen3_moe"},
              {"attention_bias", false},
              {"bos_token_id", 151643},
              {"eos_token_id", 151645},
              {"decoder_sparse_step", 1},
              {"head_dim", 128},
              {"hidden_act", "silu"},
              {"hidden_size", 2048},
              {"intermediate_size", 6144},
              {"max_position_embeddings", 40960},
              {"mlp_only_layers", Json::array()},
              {"moe_intermediate_size", 768},
              {"norm_topk_prob", true},
              {"num_attention_heads", 32},
              {"num_experts", 128},
              {"num_experts_per_tok", 8},
              {"num_hidden_layers", layers},
              {"num_key_value_heads", 4},
              {"rms_norm_eps", 1e-06},
              {"rope_scaling", nullptr},
              {"rope_theta", 1000000.0},
              {"sliding_window", nullptr},
              {"tie_word_embeddings", false},
              {"torch_dtype", "bfloat16"},
              {"use_sliding_window", false},
              {"vocab_size", 151936}};
  }
  if (kind.tiny) Shrink(config);
  return config.dump(2) + "\n";
}

uint64_t BytesOf(const ExpectedTensor& tensor) {
  uint64_t bytes = tensor.packed ? 1 : 2;
  for (const uint64_t size : tensor.shape) bytes *= size;
  return bytes;
}

// Noise for BF16 weights: either sign, magnitudes from 2^-17 to 2^-3, never NaN or infinite. As
// E8M0 scales the bytes would be invalid now and then, so those get noise of their own.
std::vector<std::byte> Noise(uint64_t seed, bool scales) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> noise(kNoiseBytes);
  if (scales) {
    for (std::byte& byte : noise) byte = static_cast<std::byte>(118 + random() % 8);
    return noise;
  }
  for (size_t i = 0; i < noise.size(); i += 2) {
    const uint64_t r = random();
    const auto bits = static_cast<uint16_t>((r & 0x807f) | ((110 + (r >> 16) % 15) << 7));
    noise[i] = static_cast<std::byte>(bits & 0xff);
    noise[i + 1] = static_cast<std::byte>(bits >> 8);
  }
  return noise;
}

class Writer {
 public:
  Writer(Path folder, uint64_t seed)
      : folder_(std::move(folder)),
        weights_(Noise(seed, false)),
        scales_(Noise(seed, true)),
        random_(seed) {}

  Status WriteShard(const std::string& name, const std::vector<const ExpectedTensor*>& tensors) {
    std::vector<TensorInfo> placed;
    for (const ExpectedTensor* tensor : tensors) {
      placed.push_back({.name = tensor->name,
                        .dtype = tensor->packed ? Dtype::kU8 : Dtype::kBf16,
                        .shape = tensor->shape});
    }
    PICCHIO_ASSIGN_OR_RETURN(File file, File::OpenForWrite(folder_ / name));
    PICCHIO_ASSIGN_OR_RETURN(const std::string header, MakeSafetensorsHeader(placed, 8));
    PICCHIO_RETURN_IF_ERROR(file.WriteAt(0, std::as_bytes(std::span(header))));
    uint64_t offset = header.size();
    for (const ExpectedTensor* tensor : tensors) {
      const auto& noise = tensor->name.ends_with("_scales") ? scales_ : weights_;
      for (uint64_t left = BytesOf(*tensor); left > 0;) {
        const size_t start = random_() % (noise.size() / 2) * 2;
        const size_t part = std::min<uint64_t>(left, noise.size() - start);
        PICCHIO_RETURN_IF_ERROR(file.WriteAt(offset, std::span(noise).subspan(start, part)));
        file.StartWriteback(offset, part);
        offset += part;
        left -= part;
      }
    }
    return file.Sync();
  }

 private:
  Path folder_;
  std::vector<std::byte> weights_;
  std::vector<std::byte> scales_;
  std::mt19937_64 random_;
};

Status Make(const Path& folder, Kind kind, uint64_t bytes, uint64_t seed) {
  const auto tensors_of = [&](uint32_t layers) -> Result<std::vector<ExpectedTensor>> {
    PICCHIO_ASSIGN_OR_RETURN(const ModelConfig config,
                             ModelConfig::Parse(ConfigText(kind, layers), "config.json"));
    return ExpectedCheckpointTensors(config);
  };
  const auto size_of = [&](const std::vector<ExpectedTensor>& tensors) {
    uint64_t sum = 0;
    for (const ExpectedTensor& tensor : tensors) sum += BytesOf(tensor);
    return sum;
  };
  PICCHIO_ASSIGN_OR_RETURN(const auto one, tensors_of(1));
  PICCHIO_ASSIGN_OR_RETURN(const auto two, tensors_of(2));
  const uint64_t layer_bytes = size_of(two) - size_of(one);
  const uint64_t rest_bytes = size_of(one) - layer_bytes;
  const auto layers = static_cast<uint32_t>(
      std::max<uint64_t>(1, bytes > rest_bytes ? (bytes - rest_bytes) / layer_bytes : 1));
  PICCHIO_ASSIGN_OR_RETURN(const auto tensors, tensors_of(layers));

  std::error_code error;
  std::filesystem::create_directories(folder, error);
  PICCHIO_RETURN_IF_ERROR(WriteFileAtomically(folder / "config.json", ConfigText(kind, layers)));
  std::vector<std::vector<const ExpectedTensor*>> shards(1);
  uint64_t shard_bytes = 0;
  for (const ExpectedTensor& tensor : tensors) {
    if (shard_bytes > 0 && shard_bytes + BytesOf(tensor) > kShardBytes) {
      shards.emplace_back();
      shard_bytes = 0;
    }
    shards.back().push_back(&tensor);
    shard_bytes += BytesOf(tensor);
  }
  Json weight_map;
  Writer writer(folder, seed);
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const ExpectedTensor* tensor : shards[i]) weight_map[tensor->name] = name;
    PICCHIO_RETURN_IF_ERROR(writer.WriteShard(name, shards[i]));
  }
  const Json index{{"metadata", {{"total_size", size_of(tensors)}}}, {"weight_map", weight_map}};
  std::printf("%u layers, %llu bytes, %zu shards in %s\n", layers,
              static_cast<unsigned long long>(size_of(tensors)), shards.size(),
              PathText(folder).c_str());
  return WriteFileAtomically(folder / "model.safetensors.index.json", index.dump() + "\n");
}

}  // namespace
}  // namespace picchio

int main(int argc, char** argv) {
  const auto kind = picchio::KindOf(argc > 2 ? argv[2] : "");
  if (argc < 4 || !kind.has_value()) {
    std::fputs("usage: make_checkpoint OUT_DIR [tiny-]qwen3|[tiny-]gpt-oss GIGABYTES [SEED]\n",
               stderr);
    return 2;
  }
  const auto bytes = static_cast<uint64_t>(std::atof(argv[3]) * 1e9);
  const uint64_t seed = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1;
  const picchio::Status made = picchio::Make(argv[1], *kind, bytes, seed);
  if (made.ok()) return 0;
  std::fprintf(stderr, "make_checkpoint: %s\n", made.message().c_str());
  return 1;
}
