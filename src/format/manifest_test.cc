#include "format/manifest.h"

#include <algorithm>
#include <limits>

#include "support/test_support.h"

namespace picchio {
namespace {

constexpr std::string_view kExperts = "model.layers.0.mlp.experts.";

ManifestTensor Tensor(std::string name, Dtype dtype, std::vector<uint64_t> shape,
                      TensorScheme scheme, std::string file) {
  const Sha256Digest sha256 = Sha256Of("bytes of " + name);
  return {std::move(name), dtype, std::move(shape), scheme, sha256, std::move(file)};
}

// What tests/data/format/make_manifest.py wrote, in another order.
Manifest Example() {
  const std::string dense = "dense.safetensors";
  const std::string experts = "experts-00001.safetensors";
  const std::string store = "experts.picchioflat";
  const std::string prefix(kExperts);
  Manifest manifest;
  manifest.architecture = "Qwen3MoeForCausalLM";
  manifest.tensors = {
      Tensor(prefix + "down_proj.2.blocks", Dtype::kU8, {64, 2, 16}, TensorScheme::kMxfp4, store),
      Tensor(prefix + "down_proj.0.qs", Dtype::kF32, {64}, TensorScheme::kInt4Mse, experts),
      Tensor(prefix + "down_proj.0", Dtype::kU8, {2048}, TensorScheme::kInt4Mse, experts),
      Tensor(prefix + "down_proj.1", Dtype::kU8, {2048}, TensorScheme::kInt4Absmax, store),
      Tensor("scalar", Dtype::kF16, {}, TensorScheme::kNone, dense),
      Tensor("model.norm \"\\\u00e9.weight", Dtype::kBf16, {64}, TensorScheme::kNone, dense),
      Tensor("lm_head.weight.qs", Dtype::kF32, {300}, TensorScheme::kInt8, dense),
      Tensor("lm_head.weight", Dtype::kI8, {300, 64}, TensorScheme::kInt8, dense)};
  for (const char* name : {"tokenizer.json", "config.json"}) {
    manifest.files.push_back({name, std::string_view(name).size(), Sha256Of(name)});
  }
  for (const std::string& name : {experts, dense}) {
    manifest.containers.push_back({name, 1000000000000, Sha256Of(name)});
  }
  manifest.stores = {{store, 4096, Sha256Of("index")}};
  return manifest;
}

std::string Golden() { return ReadAll(TestData("format/manifest_v1.json")); }

// `text` with a right checksum.
std::string Sealed(std::string_view text) {
  const std::string body(text.substr(0, text.rfind("\"checksum\"")));
  return body + "\"checksum\": \"" + Sha256Of(body).Hex() + "\"\n}\n";
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Manifest, IsWrittenAsDocumented) {
  ASSERT_OK_AND_ASSIGN(const std::string text, SerializeManifest(Example()));
  EXPECT_EQ(text, Golden());
}

TEST(Manifest, ComesBack) {
  ASSERT_OK_AND_ASSIGN(const Manifest manifest, ParseManifest(Golden(), "m"));
  EXPECT_EQ(manifest.architecture, "Qwen3MoeForCausalLM");
  EXPECT_EQ(manifest.model_id(), Example().model_id());
  ASSERT_EQ(manifest.tensors.size(), 8u);
  const ManifestTensor& tensor = manifest.tensors[4];
  EXPECT_EQ(tensor.name, std::string(kExperts) + "down_proj.1");
  EXPECT_EQ(tensor.dtype, Dtype::kU8);
  EXPECT_THAT(tensor.shape, testing::ElementsAre(2048));
  EXPECT_EQ(tensor.scheme, TensorScheme::kInt4Absmax);
  EXPECT_EQ(tensor.file, "experts.picchioflat");
  EXPECT_EQ(tensor.sha256, Sha256Of("bytes of " + tensor.name));
  EXPECT_EQ(manifest.files[1].name, "tokenizer.json");
  EXPECT_EQ(manifest.containers[0].bytes, 1000000000000u);
  EXPECT_EQ(manifest.stores[0].index_sha256, Sha256Of("index"));

  Manifest bare;
  bare.architecture = "A";
  ASSERT_OK_AND_ASSIGN(const std::string empty, SerializeManifest(bare));
  ASSERT_OK_AND_ASSIGN(const Manifest none, ParseManifest(empty, "m"));
  EXPECT_TRUE(none.tensors.empty());
}

TEST(Manifest, AnyFlippedBitIsFound) {
  const std::string golden = Golden();
  for (size_t i = 0; i < golden.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string text = golden;
      text[i] = static_cast<char>(text[i] ^ (1 << bit));
      ASSERT_FALSE(ParseManifest(text, "m").has_value()) << i << " " << bit;
    }
  }
}

TEST(Manifest, AnyCutOrTailIsFound) {
  const std::string golden = Golden();
  for (size_t size = 0; size < golden.size(); ++size) {
    ASSERT_FALSE(ParseManifest(golden.substr(0, size), "m").has_value()) << size;
  }
  EXPECT_THAT(ParseManifest(golden.substr(0, golden.size() - 1), "m"),
              Fails(Code::kCorrupt, "m does not end with its checksum"));
  EXPECT_THAT(ParseManifest(golden + "\n", "m"), Fails(Code::kCorrupt, "checksum"));
  EXPECT_THAT(ParseManifest("", "m"), Fails(Code::kCorrupt, "is not the manifest"));
  EXPECT_THAT(ParseManifest(Replaced(golden, "Qwen3", "Qwen2"), "m"),
              Fails(Code::kCorrupt, "m is damaged: its bytes have the checksum"));
  EXPECT_THAT(ParseManifest(Replaced(golden, "\"version\": 1", "\"version\": 2"), "m"),
              Fails(Code::kUnsupported, "m has version \"2\", this program reads 1"));
}

// With a right checksum: somebody edited the file on purpose.
TEST(Manifest, RefusesWhatIsSealedButWrong) {
  const struct {
    const char* from;
    const char* to;
    const char* part;
  } kCases[] = {
      {"\"architecture\"", "\"architekture\"", "expected the field \"architecture\""},
      {"\"model_id\": \"", "\"model_id\": \"0", "contradicts itself"},
      {"\"shape\": [300,64]", "\"shape\": [300, 64]", "whole number"},
      {"\"shape\": [300,64]", "\"shape\": [300,+64]", "whole number"},
      {"\"shape\": [300,64]", "\"shape\": [0300,64]", "contradicts itself"},
      {"\"shape\": [300,64]", "\"shape\": [300;64]", "','"},
      {"\"shape\": [300,64]", "\"shape\": 300", "'['"},
      {"\"shape\": [300,64]", "\"shape\": [4294967296,4294967296]", "more elements"},
      {"\"bytes\": 19200", "\"bytes\": 19201", "contradicts itself"},
      {"\"bytes\": 19200", "\"bytes\": 99999999999999999999", "whole number"},
      {"\"dtype\": \"I8\"", "\"dtype\": \"I4\"", "has dtype \"I4\""},
      {"\"int8_row\"", "\"int9_row\"", "unknown scheme \"int9_row\""},
      {"\"group_size\": 64", "\"group_size\": 32", "contradicts itself"},
      {"\"file\": \"dense.safetensors\"", "\"file\": \"other\"", "no container or store"},
      {"\"name\": \"tokenizer.json\"", "\"name\": \"config.json\"", "stands twice"},
      {"\"name\": \"tokenizer.json\"", "\"name\": \"../passwd\"", "\"../passwd\" is not the name"},
      {"\"name\": \"tokenizer.json\"", "\"name\": \"a.json\"", "contradicts itself"},
      {"\"lm_head.weight\"", "\"lm_head.weight.qs\"", "stands twice"},
      {"\"files\": [", "\"files\": {", "a list"},
      {"\"sha256\": \"", "\"sha256\": \"0", "64 digits"},
      {"\"sha256\": \"", "\"sha256\": 0", "a string"},
      {"},\n", "}],\n", "end of the entry"},
      {"\"stores\": [\n", "\"stores\": [\n\n", "expected the field \"name\""},
      {"{\"name\"", "{ \"name\"", "expected the field \"name\""},
  };
  for (const auto& c : kCases) {
    const std::string text = Sealed(Replaced(Golden(), c.from, c.to));
    EXPECT_THAT(ParseManifest(text, "m").status().message(), testing::HasSubstr(c.part)) << c.to;
    EXPECT_THAT(ParseManifest(text, "m").status().message(), testing::StartsWith("m"));
  }
  EXPECT_THAT(ParseManifest(Sealed("{\n\"format\": \"picchio-model\",\n\"version\": 1,\n"
                                   "\"architecture\": \"a\\"),
                            "m"),
              Fails(Code::kCorrupt, "end of the string"));
  std::string deep = "\"shape\": [300,64";
  for (int i = 0; i < 64; ++i) deep += ",1";
  EXPECT_THAT(ParseManifest(Sealed(Replaced(Golden(), "\"shape\": [300,64", deep)), "m"),
              Fails(Code::kCorrupt, "at most 64 dimensions"));
}

TEST(Manifest, RefusesToWriteNonsense) {
  const auto refused = [](auto change, std::string_view part) {
    Manifest manifest = Example();
    change(manifest);
    EXPECT_THAT(SerializeManifest(manifest), Fails(Code::kInvalidArgument, part));
  };
  refused([](Manifest& m) { m.architecture = ""; }, "cannot be an architecture");
  refused([](Manifest& m) { m.tensors[0].name = "a\tb"; }, "\"a\\x09b\" cannot be the name");
  refused([](Manifest& m) { m.tensors[0].name = "\xff"; }, "cannot be the name");
  refused([](Manifest& m) { m.tensors[0].name = m.tensors[1].name; }, "stands twice");
  refused([](Manifest& m) { m.tensors[0].file = "config.json"; }, "no container or store");
  refused(
      [](Manifest& m) {
        m.tensors[0].shape = {uint64_t{1} << 40, uint64_t{1} << 40};
      },
      "shape");
  refused([](Manifest& m) { m.files[0].name = "a/b"; }, "is not the name of a file");
  refused([](Manifest& m) { m.files[0].name = "\xff"; }, "is not the name of a file");
  refused([](Manifest& m) { m.files[0].name = "manifest.json"; }, "stands twice");
  refused([](Manifest& m) { m.stores[0].name = m.files[0].name; }, "stands twice");
}

TEST(Manifest, ModelIdIgnoresOrderAndPlaceAndNothingElse) {
  const ModelId id = Example().model_id();
  EXPECT_NE(Golden().find(id.Hex()), std::string::npos);
  Manifest other = Example();
  std::reverse(other.tensors.begin(), other.tensors.end());
  for (ManifestTensor& tensor : other.tensors) tensor.file = "elsewhere";
  other.stores.clear();
  EXPECT_EQ(other.model_id(), id);
  for (const auto change : {+[](ManifestTensor& t) { t.name += "x"; },
                            +[](ManifestTensor& t) { t.dtype = Dtype::kF32; },
                            +[](ManifestTensor& t) { t.shape.push_back(1); },
                            +[](ManifestTensor& t) { t.scheme = TensorScheme::kInt4Absmax; },
                            +[](ManifestTensor& t) { t.sha256.bytes[31] ^= 1; }}) {
    Manifest changed = Example();
    change(changed.tensors[0]);
    EXPECT_NE(changed.model_id(), id);
  }
  // Published value: the SHA-256 of nothing.
  EXPECT_EQ(ComputeModelId({}).Hex(), "e3b0c44298fc1c149afbf4c8996fb924");
}

TEST(Manifest, IsLoadedFromItsFolder) {
  TemporaryFolder folder;
  EXPECT_THAT(LoadManifest(folder.path()), Fails(Code::kNotFound, "manifest.json"));
  WriteAll(folder / "manifest.json", Golden());
  EXPECT_OK(LoadManifest(folder.path()));
  WriteAll(folder / "manifest.json", "{}");
  EXPECT_THAT(LoadManifest(folder.path()),
              Fails(Code::kCorrupt, "manifest.json is not the manifest"));
}

}  // namespace
}  // namespace picchio
