#include "model/expected_tensors.h"

#include <map>
#include <set>
#include <string>

#include "base/json.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using Shape = std::vector<uint64_t>;

// Names and shapes in the headers of a checkpoint's shards.
std::map<std::string, std::pair<std::string, Shape>> TensorsOf(const Path& folder) {
  std::map<std::string, std::pair<std::string, Shape>> tensors;
  const std::vector<std::string> names = ListFiles(folder).value();
  for (const std::string& name : names) {
    if (!name.ends_with(".safetensors")) continue;
    const std::string bytes = ReadAll(folder / Path(name));
    uint64_t header = 0;
    for (int i = 7; i >= 0; --i) header = header << 8 | static_cast<uint8_t>(bytes[i]);
    const Json json = ParseJson(std::string_view(bytes).substr(8, header), name).value();
    for (const auto& [key, value] : json.items()) {
      if (key != "__metadata__") tensors[key] = {value["dtype"], value["shape"].get<Shape>()};
    }
  }
  return tensors;
}

TEST(ExpectedTensors, AreThoseOfTheFixtures) {
  for (const auto* name : {"qwen3_moe_tiny", "qwen3_moe_tiny_dense", "gpt_oss_tiny",
                           "qwen3_moe_long", "gpt_oss_long"}) {
    SCOPED_TRACE(name);
    const Path folder = TestData("fixtures/" + std::string(name) + "/checkpoint");
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, ModelConfig::Load(folder));
    auto stored = TensorsOf(folder);
    for (const ExpectedTensor& tensor : ExpectedCheckpointTensors(config)) {
      const auto found = stored.find(tensor.name);
      ASSERT_NE(found, stored.end()) << tensor.name;
      EXPECT_EQ(found->second.second, tensor.shape) << tensor.name;
      EXPECT_EQ(found->second.first, tensor.packed ? "U8" : "BF16") << tensor.name;
      stored.erase(found);
    }
    EXPECT_TRUE(stored.empty()) << stored.begin()->first;
  }
}

TEST(ExpectedTensors, SayWhatTheyAre) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       ModelConfig::Load(TestData("fixtures/qwen3_moe_tiny_dense/checkpoint")));
  std::map<std::string, ExpectedTensor> by_name;
  for (const ExpectedTensor& tensor : ExpectedCheckpointTensors(config))
    by_name[tensor.name] = tensor;
  const auto check = [&](const std::string& name, std::string_view tensor_class, bool quantizable,
                         int layer, int expert) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(by_name.contains(name));
    const ExpectedTensor& tensor = by_name[name];
    EXPECT_EQ(TensorClassName(tensor.tensor_class), tensor_class);
    EXPECT_EQ(tensor.quantizable, quantizable);
    EXPECT_EQ(tensor.layer, layer);
    EXPECT_EQ(tensor.expert, expert);
  };
  check("model.embed_tokens.weight", "embedding", true, -1, -1);
  check("model.norm.weight", "norm", false, -1, -1);
  check("model.layers.0.mlp.up_proj.weight", "dense_mlp", true, 0, -1);
  check("model.layers.1.self_attn.k_norm.weight", "norm", false, 1, -1);
  check("model.layers.1.self_attn.k_proj.weight", "attention", true, 1, -1);
  check("model.layers.1.mlp.gate.weight", "router", false, 1, -1);
  check("model.layers.3.mlp.experts.7.down_proj.weight", "expert", true, 3, 7);
  EXPECT_FALSE(by_name.contains("lm_head.weight")) << "tied";

  ASSERT_OK_AND_ASSIGN(const ModelConfig oss,
                       ModelConfig::Load(TestData("fixtures/gpt_oss_tiny/checkpoint")));
  by_name.clear();
  for (const ExpectedTensor& tensor : ExpectedCheckpointTensors(oss)) by_name[tensor.name] = tensor;
  check("lm_head.weight", "head", true, -1, -1);
  check("model.layers.2.self_attn.sinks", "attention", false, 2, -1);
  check("model.layers.2.mlp.router.bias", "router", false, 2, -1);
  check("model.layers.2.mlp.experts.down_proj_blocks", "expert", false, 2, -1);
  check("model.layers.2.mlp.experts.down_proj_bias", "expert_bias", false, 2, -1);
}

TEST(ExpectedTensors, DenseOnesLeaveTheExpertsOut) {
  for (const auto* name : {"qwen3_moe_tiny_dense", "gpt_oss_tiny"}) {
    ASSERT_OK_AND_ASSIGN(
        const ModelConfig config,
        ModelConfig::Load(TestData("fixtures/" + std::string(name) + "/checkpoint")));
    std::set<std::string> dense;
    for (const ExpectedTensor& tensor : ExpectedDenseTensors(config)) dense.insert(tensor.name);
    for (const ExpectedTensor& tensor : ExpectedCheckpointTensors(config)) {
      EXPECT_EQ(dense.contains(tensor.name), tensor.tensor_class != TensorClass::kExpert)
          << tensor.name;
    }
  }
}

}  // namespace
}  // namespace picchio
