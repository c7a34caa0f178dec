#include "model/dense_weights.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <variant>

#include "model/tensor_set_test_support.h"

namespace picchio {
namespace {

constexpr const char* kGate = "model.layers.1.mlp.gate.weight";
constexpr const char* kQ = "model.layers.0.self_attn.q_proj.weight";
constexpr const char* kNorm = "model.layers.2.input_layernorm.weight";

class DenseWeightsTest : public testing::Test {
 protected:
  // Qwen3: dense and MoE layers, tied embedding.
  const Fixture fixture_ = Fixture::Open(TestData("fixtures/qwen3_moe_tiny_dense"));
  TensorSet set_ = TensorSet::DenseOf(fixture_);
  ThreadPool pool_{2};

  Result<DenseWeights> Load() {
    const TemporaryFolder folder;
    const TensorDirectory tensors = set_.Write(folder);
    std::atomic<uint64_t> told{0};
    PICCHIO_ASSIGN_OR_RETURN(DenseWeights weights,
                             LoadDenseWeights(tensors, fixture_.config, true, pool_,
                                              [&told](uint64_t bytes) { told += bytes; }));
    PICCHIO_ASSIGN_OR_RETURN(const uint64_t planned,
                             DenseWeightBytes(tensors, fixture_.config, true));
    EXPECT_EQ(planned, weights.bytes);
    EXPECT_EQ(told, weights.bytes);
    return weights;
  }
};

std::vector<float> ValuesOf(const WeightMatrix& matrix) {
  std::vector<float> values;
  if (const auto* bf16 = std::get_if<Bf16Matrix>(&matrix)) {
    for (size_t i = 0; i < bf16->rows * bf16->cols; ++i) values.push_back(Bf16ToF32(bf16->data[i]));
  } else if (const auto* f32 = std::get_if<F32Matrix>(&matrix)) {
    values.assign(f32->data, f32->data + f32->rows * f32->cols);
  } else {
    const auto& int8 = std::get<Int8Matrix>(matrix);
    for (size_t i = 0; i < int8.rows * int8.cols; ++i) {
      values.push_back(static_cast<float>(int8.codes[i]) * int8.scales[i / int8.cols]);
    }
  }
  return values;
}

TEST_F(DenseWeightsTest, KeepsWhatIsStored) {
  ASSERT_OK_AND_ASSIGN(const DenseWeights weights, Load());
  ASSERT_EQ(weights.layers.size(), 4u);
  EXPECT_EQ(ValuesOf(weights.embedding), Widened(set_["model.embed_tokens.weight"]));
  EXPECT_EQ(std::get<Bf16Matrix>(weights.embedding).data, std::get<Bf16Matrix>(weights.head).data)
      << "tied";
  const LayerWeights& dense = weights.layers[0];
  EXPECT_EQ(ValuesOf(dense.q.weights), Widened(set_[kQ]));
  EXPECT_EQ(ValuesOf(dense.down.weights), Widened(set_["model.layers.0.mlp.down_proj.weight"]));
  EXPECT_EQ(dense.q.bias, nullptr);
  EXPECT_EQ(dense.sinks, nullptr);
  const std::vector<float> norm = Widened(set_["model.layers.0.self_attn.k_norm.weight"]);
  EXPECT_EQ(std::vector<float>(dense.k_norm, dense.k_norm + norm.size()), norm);
  EXPECT_EQ(ValuesOf(weights.layers[1].router.weights), Widened(set_[kGate]));

  uint64_t bytes = 0;
  for (const auto& [name, tensor] : set_.tensors) {
    bytes += tensor.bytes.size() * (tensor.shape.size() == 1 ? 2 : 1);  // Vectors are widened.
  }
  EXPECT_EQ(weights.bytes, bytes);
}

TEST_F(DenseWeightsTest, GptOssHasBiasesAndSinks) {
  const Fixture fixture = Fixture::Open(TestData("fixtures/gpt_oss_tiny"));
  ASSERT_OK_AND_ASSIGN(const DenseWeights weights,
                       LoadDenseWeights(fixture.tensors, fixture.config, true, pool_));
  TensorSet set = TensorSet::DenseOf(fixture);
  const auto expect = [&](const float* vector, const std::string& name) {
    const std::vector<float> values = Widened(set["model.layers.3." + name]);
    ASSERT_NE(vector, nullptr) << name;
    EXPECT_EQ(std::vector<float>(vector, vector + values.size()), values) << name;
  };
  const LayerWeights& layer = weights.layers[3];
  expect(layer.sinks, "self_attn.sinks");
  expect(layer.k.bias, "self_attn.k_proj.bias");
  expect(layer.o.bias, "self_attn.o_proj.bias");
  expect(layer.router.bias, "mlp.router.bias");
  expect(layer.gate_up_biases, "mlp.experts.gate_up_proj_bias");
  expect(layer.down_biases, "mlp.experts.down_proj_bias");
  EXPECT_EQ(layer.q_norm, nullptr);

  // Where the records carry them they are not loaded, and may be absent.
  std::erase_if(set.tensors, [](const auto& entry) { return entry.first.ends_with("proj_bias"); });
  const TemporaryFolder folder;
  const TensorDirectory tensors = set.Write(folder);
  ASSERT_OK_AND_ASSIGN(const DenseWeights without,
                       LoadDenseWeights(tensors, fixture.config, false, pool_));
  EXPECT_EQ(without.layers[3].gate_up_biases, nullptr);
  EXPECT_THAT(LoadDenseWeights(tensors, fixture.config, true, pool_),
              Fails(Code::kNotFound, "model.layers.0.mlp.experts.gate_up_proj_bias"));

  // And not counted either.
  ASSERT_OK_AND_ASSIGN(const uint64_t with_biases,
                       DenseWeightBytes(fixture.tensors, fixture.config, true));
  EXPECT_EQ(with_biases, weights.bytes);
  ASSERT_OK_AND_ASSIGN(const uint64_t without_biases,
                       DenseWeightBytes(fixture.tensors, fixture.config, false));
  EXPECT_EQ(without_biases, without.bytes);
  const uint64_t expert_floats =
      uint64_t{2} * fixture.config.moe_intermediate_size + fixture.config.hidden_size;
  EXPECT_EQ(with_biases - without_biases, uint64_t{fixture.config.num_moe_layers()} *
                                              fixture.config.num_experts * expert_floats * 4);
  EXPECT_THAT(DenseWeightBytes(tensors, fixture.config, true),
              Fails(Code::kNotFound, "model.layers.0.mlp.experts.gate_up_proj_bias"));
}

// Of a matrix twice as much as it takes in the file, by hand.
TEST_F(DenseWeightsTest, BytesOfWideMatrices) {
  ASSERT_OK_AND_ASSIGN(const DenseWeights narrow, Load());
  const uint64_t elements = set_[kQ].bytes.size() / 2;
  set_[kQ].dtype = Dtype::kF16;
  for (uint16_t& bits : set_[kQ].as<uint16_t>()) bits = 0x3c00;  // 1
  const std::vector<float> gate = Widened(set_[kGate]);
  set_[kGate] = F32Tensor(set_[kGate].shape, gate);
  ASSERT_OK_AND_ASSIGN(const DenseWeights wide, Load());
  EXPECT_EQ(wide.bytes, narrow.bytes + 2 * elements + 2 * gate.size());
}

TEST_F(DenseWeightsTest, OtherFloatTypesAreWidened) {
  const std::vector<float> q = Widened(set_[kQ]);
  set_[kQ] = F32Tensor(set_[kQ].shape, q);
  const std::vector<float> gate = Widened(set_[kGate]);
  set_[kGate] = F32Tensor(set_[kGate].shape, gate);
  // F16: these values are exact in it.
  TensorSet::Tensor& norm = set_[kNorm];
  norm.dtype = Dtype::kF16;
  for (size_t i = 0; i < norm.as<uint16_t>().size(); ++i) {
    norm.as<uint16_t>()[i] = static_cast<uint16_t>(0x3c00 + i);  // 1 + i / 1024
  }
  ASSERT_OK_AND_ASSIGN(const DenseWeights weights, Load());
  EXPECT_EQ(ValuesOf(weights.layers[0].q.weights), q);
  EXPECT_EQ(ValuesOf(weights.layers[1].router.weights), gate);
  EXPECT_EQ(weights.layers[2].input_norm[3], 1 + 3 / 1024.0F);
}

TEST_F(DenseWeightsTest, Int8Matrices) {
  const std::vector<float> q = MakeInt8(set_, kQ);
  const std::vector<float> embedding = MakeInt8(set_, "model.embed_tokens.weight");
  ASSERT_OK_AND_ASSIGN(const DenseWeights weights, Load());
  EXPECT_TRUE(std::holds_alternative<Int8Matrix>(weights.layers[0].q.weights));
  EXPECT_EQ(ValuesOf(weights.layers[0].q.weights), q);
  EXPECT_EQ(ValuesOf(weights.embedding), embedding);
  EXPECT_EQ(ValuesOf(weights.head), embedding);

  set_[kQ].as<int8_t>()[500] = -128;
  EXPECT_THAT(Load(), Fails(Code::kCorrupt, "element 500 of the tensor " + std::string(kQ)));
}

TEST_F(DenseWeightsTest, Int8NeedsItsScales) {
  MakeInt8(set_, kQ);
  const std::string scales = std::string(kQ) + ".qs";
  const TensorSet::Tensor good = set_[scales];
  set_[scales].as<float>()[3] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Load(), Fails(Code::kCorrupt, "element 3 of the tensor " + scales));
  set_[scales] = good;
  set_[scales].shape = {set_[scales].shape[0], 1};
  EXPECT_THAT(Load(), Fails(Code::kCorrupt, scales));
  set_[scales] = {Dtype::kBf16, good.shape, std::vector<std::byte>(good.bytes.size() / 2)};
  EXPECT_THAT(Load(), Fails(Code::kCorrupt, scales + " is of type BF16, expected F32"));
  set_.tensors.erase(scales);
  EXPECT_THAT(Load(), Fails(Code::kNotFound, scales));
}

TEST_F(DenseWeightsTest, RefusesWrongTensors) {
  const TensorSet good = set_;
  const auto with = [&](auto change) {
    set_ = good;
    change(set_);
    return Load();
  };
  EXPECT_THAT(with([](TensorSet& set) { set.tensors.erase(kNorm); }),
              Fails(Code::kNotFound, kNorm));
  EXPECT_THAT(
      with([](TensorSet& set) {
        set[kQ].shape = {96, 192};
      }),
      Fails(Code::kCorrupt, "q_proj.weight has the shape [96,192], config.json asks for [192,96]"));
  EXPECT_THAT(
      with([](TensorSet& set) { set.tensors["model.layers.0.mlp.down.weight"] = set[kNorm]; }),
      Fails(Code::kCorrupt, "model.layers.0.mlp.down.weight is none that config.json"));
  EXPECT_THAT(with([](TensorSet& set) {
                set[kQ].dtype = Dtype::kU8;
                set[kQ].bytes.resize(set[kQ].bytes.size() / 2);
              }),
              Fails(Code::kCorrupt, "is of type U8, expected BF16, F32, F16 or I8"));
  EXPECT_THAT(with([](TensorSet& set) { MakeInt8(set, kGate); }),
              Fails(Code::kCorrupt, "gate.weight is of type I8, expected BF16, F32 or F16"))
      << "the router is never quantised";
}

TEST_F(DenseWeightsTest, RefusesWhatIsNotFinite) {
  const TensorSet good = set_;
  set_[kQ].as<uint16_t>()[77] = 0x7fc0;  // NaN
  EXPECT_THAT(Load(), Fails(Code::kCorrupt,
                            "element 77 of the tensor " + std::string(kQ) + " is not finite"));
  set_[kQ].as<uint16_t>()[77] = 0xff80;  // -infinity
  EXPECT_THAT(Load(), Fails(Code::kCorrupt, kQ));
  set_ = good;
  set_[kNorm].as<uint16_t>()[0] = 0x7f80;
  EXPECT_THAT(Load(), Fails(Code::kCorrupt, "element 0 of the tensor " + std::string(kNorm)));
  set_ = good;
  std::vector<float> gate = Widened(set_[kGate]);
  gate[5] = std::nanf("");
  set_[kGate] = F32Tensor(set_[kGate].shape, gate);
  EXPECT_THAT(Load(), Fails(Code::kCorrupt, "element 5 of the tensor " + std::string(kGate)));
}

TEST_F(DenseWeightsTest, ATruncatedFileIsNoticed) {
  const TemporaryFolder folder;
  const TensorDirectory tensors = set_.Write(folder);
  std::filesystem::resize_file(folder / "dense.safetensors", 5000);
  EXPECT_FALSE(LoadDenseWeights(tensors, fixture_.config, true, pool_).has_value());
}

}  // namespace
}  // namespace picchio
