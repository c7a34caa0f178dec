// The quantisers against the fixtures: INT4 bytes and scales by their published digests and dumps,
// and what the mse scheme gains on every one of them.
#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "base/json.h"
#include "format/int4.h"
#include "format/mxfp4.h"
#include "format/npy.h"
#include "format/tensor_directory.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// The 64-bit FNV-1a digest of the fixtures' meta.json.
class Fnv1a {
 public:
  void Update(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) hash_ = (hash_ ^ static_cast<uint64_t>(b)) * 0x100000001b3;
  }
  std::string Hex() const { return fmt::format("{:016x}", hash_); }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

struct Matrix {
  size_t cols = 0;
  std::vector<uint16_t> weights;  // BF16, [rows, cols].
};

struct Int4Matrix {
  std::vector<std::byte> packed;
  std::vector<float> scales;
};

struct Expert {
  Matrix gate_up;
  Matrix down;
};

// A fixture's experts in BF16, from its checkpoint.
class Fixture {
 public:
  explicit Fixture(const std::string& name)
      : folder_(TestData("fixtures/" + name)),
        directory_(TensorDirectory::OpenCheckpoint(folder_ / "checkpoint")),
        config_(ReadJson(folder_ / "checkpoint/config.json")),
        meta_(ReadJson(folder_ / "golden/meta.json")) {}

  bool opened() const { return directory_.has_value(); }
  bool is_gpt_oss() const { return config_.at("model_type") == "gpt_oss"; }
  size_t num_layers() const { return config_.at("num_hidden_layers"); }
  size_t num_experts() const {
    return is_gpt_oss() ? config_.at("num_local_experts") : config_.at("num_experts");
  }
  const Json& meta() const { return meta_; }
  Path Golden(const std::string& name) const { return folder_ / "golden" / name; }

  // Whether the layer has experts.
  bool IsMoe(size_t layer) const {
    return is_gpt_oss() ||
           directory_->Find(Prefix(layer) + "experts.0.down_proj.weight") != nullptr;
  }

  void ReadExpert(size_t layer, size_t e, Expert& expert) const {
    if (is_gpt_oss()) {
      ReadMxfp4(Prefix(layer) + "experts.gate_up_proj", e, expert.gate_up);
      ReadMxfp4(Prefix(layer) + "experts.down_proj", e, expert.down);
      return;
    }
    const std::string prefix = fmt::format("{}experts.{}.", Prefix(layer), e);
    expert = {};
    AppendRows(prefix + "gate_proj.weight", expert.gate_up);
    AppendRows(prefix + "up_proj.weight", expert.gate_up);
    AppendRows(prefix + "down_proj.weight", expert.down);
  }

 private:
  static Json ReadJson(const Path& path) {
    auto json = ParseJson(ReadAll(path), "fixture");
    EXPECT_OK(json);
    return json.has_value() ? *json : Json();
  }
  static std::string Prefix(size_t layer) { return fmt::format("model.layers.{}.mlp.", layer); }

  void AppendRows(const std::string& name, Matrix& matrix) const {
    ASSERT_OK_AND_ASSIGN(const TensorEntry* tensor, directory_->Get(name));
    ASSERT_EQ(tensor->dtype, Dtype::kBf16);
    matrix.cols = tensor->shape.at(1);
    const size_t begin = matrix.weights.size();
    matrix.weights.resize(begin + tensor->bytes / 2);
    ASSERT_OK(directory_->Read(*tensor,
                               std::as_writable_bytes(std::span(matrix.weights).subspan(begin))));
  }

  void ReadMxfp4(const std::string& name, size_t e, Matrix& matrix) const {
    ASSERT_OK_AND_ASSIGN(const TensorEntry* blocks, directory_->Get(name + "_blocks"));
    ASSERT_OK_AND_ASSIGN(const TensorEntry* scales, directory_->Get(name + "_scales"));
    // Blocks [experts, rows, cols / 32, 16], scales [experts, rows, cols / 32].
    const std::vector<uint64_t>& shape = scales->shape;
    ASSERT_EQ(shape.size(), 3u);
    std::vector<std::byte> block_bytes(blocks->bytes / shape[0]);
    std::vector<std::byte> scale_bytes(scales->bytes / shape[0]);
    ASSERT_OK(directory_->ReadAt(*blocks, e * block_bytes.size(), block_bytes));
    ASSERT_OK(directory_->ReadAt(*scales, e * scale_bytes.size(), scale_bytes));
    matrix.cols = shape[2] * kMxfp4Block;
    matrix.weights.resize(shape[1] * matrix.cols);
    ASSERT_OK(DecodeMxfp4(block_bytes, scale_bytes, matrix.cols, 0, std::span(matrix.weights)));
  }

  Path folder_;
  Result<TensorDirectory> directory_;
  Json config_;
  Json meta_;
};

Int4Matrix Quantise(Int4Scheme scheme, const Matrix& matrix, QuantError& error) {
  const size_t rows = matrix.weights.size() / matrix.cols;
  Int4Matrix q{std::vector<std::byte>(matrix.weights.size() / 2),
               std::vector<float>(rows * Int4GroupsPerRow(matrix.cols))};
  EXPECT_OK(QuantizeInt4(scheme, Dtype::kBf16, std::as_bytes(std::span(matrix.weights)),
                         matrix.cols, 0, q.packed, q.scales, error));
  return q;
}

// Fixtures with INT4 dumps, and all of them.
class Int4Fixture : public testing::TestWithParam<const char*> {};
class Int4Error : public testing::TestWithParam<const char*> {};

TEST_P(Int4Fixture, AbsmaxHasThePublishedDigests) {
  const Fixture fixture(GetParam());
  ASSERT_TRUE(fixture.opened());
  size_t compared = 0;
  Expert expert;
  for (size_t layer = 0; layer < fixture.num_layers(); ++layer) {
    if (!fixture.IsMoe(layer)) continue;
    Fnv1a digest;
    QuantError error;
    for (size_t e = 0; e < fixture.num_experts(); ++e) {
      fixture.ReadExpert(layer, e, expert);
      for (const Matrix* matrix : {&expert.gate_up, &expert.down}) {
        const Int4Matrix q = Quantise(Int4Scheme::kAbsmax, *matrix, error);
        digest.Update(q.packed);
        digest.Update(std::as_bytes(std::span(q.scales)));
      }
    }
    EXPECT_EQ(digest.Hex(), fixture.meta().at("int4").at(fmt::format("layer{}_fnv1a64", layer)));
    ++compared;
  }
  EXPECT_EQ(compared, fixture.meta().at("int4").size());
}

TEST_P(Int4Fixture, AbsmaxHasTheDumpedBytes) {
  const Fixture fixture(GetParam());
  ASSERT_TRUE(fixture.opened());
  size_t compared = 0;
  Expert expert;
  QuantError error;
  for (size_t layer = 0; layer < fixture.num_layers(); ++layer) {
    for (size_t e = 0; e < fixture.num_experts(); ++e) {
      const std::string stem = fmt::format("int4_layer{}_expert{}_", layer, e);
      if (!FileExists(fixture.Golden(stem + "down_q.npy"))) continue;
      fixture.ReadExpert(layer, e, expert);
      const std::pair<const char*, const Matrix*> kParts[] = {{"gate_up", &expert.gate_up},
                                                              {"down", &expert.down}};
      for (const auto& [part, matrix] : kParts) {
        const Int4Matrix q = Quantise(Int4Scheme::kAbsmax, *matrix, error);
        ASSERT_OK_AND_ASSIGN(const NpyArray packed,
                             NpyArray::Load(fixture.Golden(stem + part + "_q.npy")));
        ASSERT_OK_AND_ASSIGN(const NpyArray scales,
                             NpyArray::Load(fixture.Golden(stem + part + "_scales.npy")));
        ASSERT_OK_AND_ASSIGN(const auto expected, packed.Values<uint8_t>());
        ASSERT_OK_AND_ASSIGN(const auto expected_scales, scales.Values<float>());
        ASSERT_EQ(q.packed.size(), expected.size());
        EXPECT_EQ(std::memcmp(q.packed.data(), expected.data(), expected.size()), 0);
        ASSERT_EQ(q.scales.size(), expected_scales.size());
        EXPECT_EQ(
            std::memcmp(q.scales.data(), expected_scales.data(), expected_scales.size_bytes()), 0);
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 4u);
}

// The reason why mse is the converter's default.
TEST_P(Int4Error, MseLowersTheError) {
  const Fixture fixture(GetParam());
  ASSERT_TRUE(fixture.opened());
  std::array<QuantError, 2> error;
  Expert expert;
  for (size_t layer = 0; layer < fixture.num_layers(); ++layer) {
    for (size_t e = 0; fixture.IsMoe(layer) && e < fixture.num_experts(); ++e) {
      fixture.ReadExpert(layer, e, expert);
      for (const Matrix* matrix : {&expert.gate_up, &expert.down}) {
        (void)Quantise(Int4Scheme::kAbsmax, *matrix, error[0]);
        (void)Quantise(Int4Scheme::kMse, *matrix, error[1]);
      }
    }
  }
  RecordProperty("absmax_relative_error", fmt::format("{:.6f}", error[0].Relative()));
  RecordProperty("mse_relative_error", fmt::format("{:.6f}", error[1].Relative()));
  EXPECT_EQ(error[0].squared_sum, error[1].squared_sum);
  EXPECT_LT(error[1].Relative(), 0.9 * error[0].Relative());
}

INSTANTIATE_TEST_SUITE_P(All, Int4Fixture,
                         testing::Values("qwen3_moe_tiny", "qwen3_moe_tiny_dense", "gpt_oss_tiny"),
                         [](const auto& fixture) { return std::string(fixture.param); });
INSTANTIATE_TEST_SUITE_P(All, Int4Error,
                         testing::Values("qwen3_moe_tiny", "qwen3_moe_tiny_dense", "gpt_oss_tiny",
                                         "qwen3_moe_long", "gpt_oss_long"),
                         [](const auto& fixture) { return std::string(fixture.param); });

TEST(Mxfp4Fixture, DecodesTheDumpedMatrix) {
  const Fixture fixture("gpt_oss_tiny");
  ASSERT_TRUE(fixture.opened());
  Expert expert;
  fixture.ReadExpert(0, 1, expert);
  ASSERT_OK_AND_ASSIGN(const NpyArray dump,
                       NpyArray::Load(fixture.Golden("mxfp4_layer0_expert1_gate_up.npy")));
  ASSERT_OK_AND_ASSIGN(const auto expected, dump.Values<float>());
  std::vector<float> decoded(expert.gate_up.weights.size());
  WidenToF32(Dtype::kBf16, std::as_bytes(std::span(expert.gate_up.weights)), decoded);
  ASSERT_EQ(decoded.size(), expected.size());
  EXPECT_EQ(std::memcmp(decoded.data(), expected.data(), expected.size_bytes()), 0);
}

}  // namespace
}  // namespace picchio
