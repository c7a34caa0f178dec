// Writes a checkpoint of any size in the published layout, filled with valid random weights at the
// disk's speed: for measuring conversions without a download. The text such a model writes is
// noise.
//
//   make_checkpoint OUT_DIR SHAPE GIGABYTES [SEED]
//
// Shapes are those of picchio synth, with as many layers as the size asks for: at least one, at
// most all.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "apps/synth/shapes.h"
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

// No token: noise has no end of text.
constexpr int32_t kEndOfText = 0;

uint64_t BytesOf(const ExpectedTensor& tensor) {
  uint64_t bytes = tensor.packed ? 1 : 2;
  for (const uint64_t size : tensor.shape) bytes *= size;
  return bytes;
}

// BF16 of either sign, magnitudes from 2^(least - 127) on over so many octaves.
std::vector<std::byte> Bf16Noise(uint64_t seed, uint64_t least, uint64_t octaves) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> noise(kNoiseBytes);
  for (size_t i = 0; i < noise.size(); i += 2) {
    const uint64_t r = random();
    const auto bits = static_cast<uint16_t>((r & 0x807f) | ((least + (r >> 16) % octaves) << 7));
    noise[i] = static_cast<std::byte>(bits & 0xff);
    noise[i + 1] = static_cast<std::byte>(bits >> 8);
  }
  return noise;
}

// E8M0, from 2^-9 to 2^-2.
std::vector<std::byte> ScaleNoise(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> noise(kNoiseBytes);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(118 + random() % 8);
  return noise;
}

class Writer {
 public:
  Writer(Path folder, uint64_t seed)
      : folder_(std::move(folder)),
        weights_(Bf16Noise(seed, 110, 15)),
        embedding_(Bf16Noise(seed, 125, 3)),
        scales_(ScaleNoise(seed)),
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
      const auto& noise = NoiseFor(tensor->name);
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
  const std::vector<std::byte>& NoiseFor(const std::string& tensor) const {
    if (tensor.ends_with("_scales")) return scales_;
    return tensor.ends_with("embed_tokens.weight") ? embedding_ : weights_;
  }

  Path folder_;
  std::vector<std::byte> weights_;
  std::vector<std::byte>
      embedding_;  // Larger than what layers add, or all tokens would route alike.
  std::vector<std::byte> scales_;
  std::mt19937_64 random_;
};

Status Make(const Path& folder, std::string_view shape, uint64_t bytes, uint64_t seed) {
  const auto config_of = [&](std::optional<uint32_t> layers) -> Result<ModelConfig> {
    PICCHIO_ASSIGN_OR_RETURN(const std::string text, ShapeConfig(shape, layers, kEndOfText));
    return ModelConfig::Parse(text, "config.json");
  };
  const auto tensors_of = [&](uint32_t layers) -> Result<std::vector<ExpectedTensor>> {
    PICCHIO_ASSIGN_OR_RETURN(const ModelConfig config, config_of(layers));
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
  PICCHIO_ASSIGN_OR_RETURN(const ModelConfig whole, config_of(std::nullopt));
  const auto layers = static_cast<uint32_t>(std::clamp<uint64_t>(
      bytes > rest_bytes ? (bytes - rest_bytes) / layer_bytes : 1, 1, whole.num_hidden_layers));
  PICCHIO_ASSIGN_OR_RETURN(const auto tensors, tensors_of(layers));

  std::error_code error;
  std::filesystem::create_directories(folder, error);
  PICCHIO_ASSIGN_OR_RETURN(const std::string config_text, ShapeConfig(shape, layers, kEndOfText));
  PICCHIO_RETURN_IF_ERROR(WriteFileAtomically(folder / "config.json", config_text));
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
  if (argc < 4 || !picchio::IsShapeName(argv[2])) {
    std::fputs("usage: make_checkpoint OUT_DIR SHAPE GIGABYTES [SEED]   (shapes: picchio synth)\n",
               stderr);
    return 2;
  }
  const auto bytes = static_cast<uint64_t>(std::atof(argv[3]) * 1e9);
  const uint64_t seed = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1;
  const picchio::Status made = picchio::Make(argv[1], argv[2], bytes, seed);
  if (made.ok()) return 0;
  std::fprintf(stderr, "make_checkpoint: %s\n", made.message().c_str());
  return 1;
}
