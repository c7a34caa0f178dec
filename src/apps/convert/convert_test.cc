#include "apps/convert/convert.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "apps/convert/checkpoint_test_support.h"
#include "apps/convert/conversion_test_support.h"
#include "apps/convert/journal.h"
#include "apps/verify/verify.h"
#include "base/file_calls_test_support.h"
#include "format/flat_index.h"
#include "format/manifest.h"
#include "format/mxfp4.h"
#include "format/npy.h"
#include "support/test_support.h"

namespace picchio {
namespace {

std::string TensorBytes(const TensorDirectory& model, std::string_view name) {
  const auto tensor = model.Get(name);
  EXPECT_OK(tensor);
  std::string bytes((*tensor)->bytes, '\0');
  EXPECT_OK(model.Read(**tensor, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

TensorDirectory OpenModel(const Path& folder) {
  const auto manifest = LoadManifest(folder);
  EXPECT_OK(manifest);
  std::vector<std::string> names;
  for (const auto& container : manifest->containers) names.push_back(container.name);
  auto directory = TensorDirectory::OpenFiles(folder, names);
  EXPECT_OK(directory);
  return std::move(*directory);
}

// FNV-1a, the digest of the fixtures' README.
uint64_t Fnv1a(uint64_t digest, std::string_view bytes) {
  for (const char byte : bytes) {
    digest ^= static_cast<uint8_t>(byte);
    digest *= 0x100000001b3;
  }
  return digest;
}

class Fixture : public testing::TestWithParam<const char*> {
 protected:
  Path checkpoint() const { return FixtureCheckpoint(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(All, Fixture,
                         testing::Values("qwen3_moe_tiny", "qwen3_moe_tiny_dense", "gpt_oss_tiny",
                                         "qwen3_moe_long", "gpt_oss_long"),
                         [](const auto& test) { return std::string(test.param); });

// The container's INT4 bytes and scales, layer by layer, against digests from elsewhere.
TEST(Convert, Int4MatchesTheReferenceDigests) {
  for (const char* fixture : {"qwen3_moe_tiny", "qwen3_moe_tiny_dense", "gpt_oss_tiny"}) {
    TemporaryFolder out;
    ASSERT_OK(ConvertTo(FixtureCheckpoint(fixture), out.path(), Reference()));
    const TensorDirectory model = OpenModel(out.path());
    const std::string meta_text = ReadAll(TestData("fixtures") / fixture / "golden/meta.json");
    ASSERT_OK_AND_ASSIGN(const Json meta, ParseJson(meta_text, "meta.json"));
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, ModelConfig::Load(out.path()));
    ASSERT_EQ(meta["int4"].size(), config.num_moe_layers());
    for (const auto& [key, digest] : meta["int4"].items()) {
      int layer = -1;
      ASSERT_EQ(std::sscanf(key.c_str(), "layer%d_fnv1a64", &layer), 1);
      uint64_t found = 0xcbf29ce484222325;
      for (uint32_t expert = 0; expert < config.num_experts; ++expert) {
        for (const char* matrix : {"gate_up_proj", "down_proj"}) {
          const std::string name =
              fmt::format("model.layers.{}.mlp.experts.{}.{}", layer, matrix, expert);
          found = Fnv1a(found, TensorBytes(model, name));
          found = Fnv1a(found, TensorBytes(model, name + ".qs"));
        }
      }
      EXPECT_EQ(fmt::format("{:016x}", found), digest.get<std::string>()) << fixture << " " << key;
    }
  }
}

TEST_P(Fixture, ConvertsTheSameOnAnyNumberOfThreadsAndVerifies) {
  for (const bool int8 : {false, true}) {
    ConversionOptions options;
    options.int8_dense = int8;
    options.int8_head = int8;
    options.keep_safetensors = int8;
    TemporaryFolder one;
    TemporaryFolder many;
    ASSERT_OK_AND_ASSIGN(const ConversionReport report,
                         ConvertTo(checkpoint(), one.path(), options, 1));
    ASSERT_OK(ConvertTo(checkpoint(), many.path(), options, 5));
    EXPECT_EQ(FolderContents(one.path()), FolderContents(many.path()));
    ASSERT_OK_AND_ASSIGN(const VerifyReport verified, VerifyModel(one.path(), 2, kGoOn));
    EXPECT_EQ(verified.model_id, report.model_id);
    for (const auto& [tensor_class, error] : report.errors) {
      EXPECT_GT(error.Relative(), 0.0) << TensorClassName(tensor_class);
      EXPECT_LT(error.Relative(), 0.2) << TensorClassName(tensor_class);
    }
  }
}

// Dense tensors keep their bytes; BF16 experts too, gate rows before up rows.
TEST_P(Fixture, ExactMeansExact) {
  ConversionOptions options = Kept();
  options.experts = PayloadKind::kBf16;
  options.int8_head = false;
  TemporaryFolder out;
  ASSERT_OK(ConvertTo(checkpoint(), out.path(), options));
  const TensorDirectory model = OpenModel(out.path());
  ASSERT_OK_AND_ASSIGN(const TensorDirectory source, TensorDirectory::OpenCheckpoint(checkpoint()));
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, ModelConfig::Load(out.path()));
  for (const ExpectedTensor& dense : ExpectedDenseTensors(config)) {
    EXPECT_EQ(TensorBytes(model, dense.name), TensorBytes(source, dense.name)) << dense.name;
  }
  if (config.checkpoint_experts_mxfp4) return;
  for (uint32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!config.layers[layer].moe) continue;
    for (uint32_t expert = 0; expert < config.num_experts; ++expert) {
      const std::string prefix = fmt::format("model.layers.{}.mlp.experts.", layer);
      const std::string own = fmt::format("{}{}.", prefix, expert);
      EXPECT_EQ(TensorBytes(model, fmt::format("{}gate_up_proj.{}", prefix, expert)),
                TensorBytes(source, own + "gate_proj.weight") +
                    TensorBytes(source, own + "up_proj.weight"));
      EXPECT_EQ(TensorBytes(model, fmt::format("{}down_proj.{}", prefix, expert)),
                TensorBytes(source, own + "down_proj.weight"));
    }
  }
}

// Stopped again and again after a little work: the pieces add up to the same model.
TEST_P(Fixture, GoesOnWhereItStopped) {
  TemporaryFolder whole;
  ConversionOptions options = Reference();
  options.keep_safetensors = false;
  options.experts.reset();
  ASSERT_OK_AND_ASSIGN(const ConversionReport expected,
                       ConvertTo(checkpoint(), whole.path(), options));
  TemporaryFolder out;
  std::atomic<bool> stop{true};
  // A conversion that is stopped at once leaves a journal and nothing that looks whole.
  EXPECT_THAT(Convert(checkpoint(), out.path(), options, 2, stop), Fails(Code::kCancelled, ""));
  EXPECT_FALSE(FileExists(out / kManifestName));
  EXPECT_THAT(VerifyModel(out.path(), 1, kGoOn), Fails(Code::kNotFound, "not finished"));
  int rounds = 0;
  while (true) {
    stop = false;
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(300 * (rounds + 1)));
      stop = true;
    });
    const auto report = Convert(checkpoint(), out.path(), options, 2, stop);
    killer.join();
    ++rounds;
    if (report.has_value()) {
      EXPECT_EQ(report->model_id, expected.model_id);
      ASSERT_EQ(report->errors.size(), expected.errors.size());
      for (size_t i = 0; i < expected.errors.size(); ++i) {
        EXPECT_EQ(report->errors[i].tensor_class, expected.errors[i].tensor_class);
        // To the bit: neither threads nor interruptions change the order of the sum.
        EXPECT_EQ(report->errors[i].error.squared_error, expected.errors[i].error.squared_error);
        EXPECT_EQ(report->errors[i].error.squared_sum, expected.errors[i].error.squared_sum);
      }
      break;
    }
    ASSERT_EQ(report.error().code(), Code::kCancelled) << report.error().message();
  }
  EXPECT_EQ(FolderContents(out.path()), FolderContents(whole.path()));
}

void ExpectNoChangeBelieved(const char* fixture, const ConversionOptions& options) {
  const Path checkpoint = FixtureCheckpoint(fixture);
  TemporaryFolder whole;
  ASSERT_OK(ConvertTo(checkpoint, whole.path(), options));

  // A conversion that wrote everything and was killed before it could publish.
  TemporaryFolder out;
  std::atomic<bool> stop{true};
  ASSERT_THAT(Convert(checkpoint, out.path(), options, 1, stop), Fails(Code::kCancelled, ""));
  ASSERT_OK_AND_ASSIGN(const Manifest manifest, LoadManifest(whole.path()));
  std::string journal = ReadAll(out / "conversion.journal");
  for (const ManifestTensor& tensor : manifest.tensors) {
    journal +=
        Json{{"tensor", tensor.name}, {"sha256", tensor.sha256.Hex()}, {"error", {0, 0}}}.dump() +
        "\n";
  }
  WriteAll(out / "conversion.journal", journal);
  for (const auto& [name, bytes] : FolderContents(whole.path())) {
    if (!name.ends_with(".safetensors") && !name.ends_with(".picchioflat")) continue;
    std::string spoilt = bytes;
    spoilt[spoilt.size() / 2] ^= 1;
    WriteAll(out / (name + ".picchio-tmp"), spoilt);
  }
  ASSERT_OK_AND_ASSIGN(const ConversionReport report, ConvertTo(checkpoint, out.path(), options));
  EXPECT_GT(report.resumed_bytes, 0u);
  EXPECT_LT(report.resumed_bytes, report.source_bytes);
  EXPECT_EQ(FolderContents(out.path()), FolderContents(whole.path()));
}

TEST(Convert, BelievesNoJournalledTensorThatHasChanged) {
  ExpectNoChangeBelieved("qwen3_moe_tiny", Reference());
  ExpectNoChangeBelieved("qwen3_moe_tiny", {});
  ExpectNoChangeBelieved("gpt_oss_tiny", {});
}

// What an earlier run left between the tensors is in no journal: it is written anew each time.
TEST(Convert, WhatIsNoTensorIsWrittenAgain) {
  const Path checkpoint = FixtureCheckpoint("gpt_oss_tiny");
  TemporaryFolder whole;
  ASSERT_OK(ConvertTo(checkpoint, whole.path(), {}));
  TemporaryFolder out;
  std::atomic<bool> stop{true};
  ASSERT_THAT(Convert(checkpoint, out.path(), {}, 1, stop), Fails(Code::kCancelled, ""));
  ASSERT_OK_AND_ASSIGN(const Manifest manifest, LoadManifest(whole.path()));
  std::string journal = ReadAll(out / "conversion.journal");
  for (const ManifestTensor& tensor : manifest.tensors) {
    journal +=
        Json{{"tensor", tensor.name}, {"sha256", tensor.sha256.Hex()}, {"error", {0, 0}}}.dump() +
        "\n";
  }
  WriteAll(out / "conversion.journal", journal);
  ASSERT_OK_AND_ASSIGN(const File store, File::OpenForRead(whole / "experts.picchioflat"));
  ASSERT_OK_AND_ASSIGN(const FlatIndex index, FlatIndex::Read(store));
  const std::string good = ReadAll(whole / "experts.picchioflat");
  std::string spoilt(good.size(), '\x5a');
  for (uint32_t layer = 0; layer < index.superblock().num_layers; ++layer) {
    for (uint32_t expert = 0; expert < index.superblock().num_experts; ++expert) {
      const FlatEntry* entry = index.Find(layer, expert);
      ASSERT_NE(entry, nullptr);
      for (const RecordPart& part : {index.layout().gate_up, index.layout().gate_up_scales,
                                     index.layout().down, index.layout().down_scales}) {
        const size_t at = entry->offset + part.offset;
        spoilt.replace(at, part.bytes, good, at, part.bytes);
      }
    }
  }
  WriteAll(out / "experts.picchioflat.picchio-tmp", spoilt);
  WriteAll(out / "dense.safetensors.picchio-tmp", ReadAll(whole / "dense.safetensors"));
  ASSERT_OK_AND_ASSIGN(const ConversionReport report, ConvertTo(checkpoint, out.path(), {}));
  EXPECT_EQ(report.resumed_bytes, report.source_bytes);
  EXPECT_TRUE(FolderContents(out.path()) == FolderContents(whole.path()));
}

TEST(Convert, AnotherSourceOrOtherOptionsLeaveWhatIsBegun) {
  const Path checkpoint = FixtureCheckpoint("gpt_oss_tiny");
  TemporaryFolder out;
  std::atomic<bool> stop{true};
  ASSERT_THAT(Convert(checkpoint, out.path(), Reference(), 1, stop), Fails(Code::kCancelled, ""));
  const auto begun = FolderContents(out.path());
  EXPECT_THAT(ConvertTo(FixtureCheckpoint("qwen3_moe_tiny"), out.path(), Reference()),
              Fails(Code::kInvalidArgument, "finish it with those, or remove the folder"));
  ConversionOptions other = Reference();
  other.int8_dense = !other.int8_dense;
  EXPECT_THAT(ConvertTo(checkpoint, out.path(), other),
              Fails(Code::kInvalidArgument, "with other options"));
  EXPECT_TRUE(FolderContents(out.path()) == begun);
  ASSERT_OK(ConvertTo(checkpoint, out.path(), Reference()));
  EXPECT_OK(VerifyModel(out.path(), 1, kGoOn));
}

TEST(Convert, MxfpExpertsAreKeptByDefaultAndDecodedExactly) {
  const Path checkpoint = FixtureCheckpoint("gpt_oss_tiny");
  TemporaryFolder kept;
  ASSERT_OK(ConvertTo(checkpoint, kept.path(), Kept()));
  const TensorDirectory model = OpenModel(kept.path());
  ASSERT_OK_AND_ASSIGN(const TensorDirectory source, TensorDirectory::OpenCheckpoint(checkpoint));
  for (const char* matrix : {"gate_up_proj", "down_proj"}) {
    for (const char* part : {"blocks", "scales"}) {
      std::string joined;
      for (int expert = 0; expert < 8; ++expert) {
        joined += TensorBytes(
            model, fmt::format("model.layers.2.mlp.experts.{}.{}.{}", matrix, expert, part));
      }
      EXPECT_EQ(joined,
                TensorBytes(source, fmt::format("model.layers.2.mlp.experts.{}_{}", matrix, part)));
    }
  }

  ConversionOptions options = Kept();
  options.experts = PayloadKind::kBf16;
  TemporaryFolder decoded;
  ASSERT_OK(ConvertTo(checkpoint, decoded.path(), options));
  const TensorDirectory bf16 = OpenModel(decoded.path());
  const std::string found = TensorBytes(bf16, "model.layers.0.mlp.experts.gate_up_proj.1");
  ASSERT_OK_AND_ASSIGN(const NpyArray reference,
                       NpyArray::Load(TestData("fixtures/gpt_oss_tiny/golden") /
                                      "mxfp4_layer0_expert1_gate_up.npy"));
  ASSERT_OK_AND_ASSIGN(const auto values, reference.Values<float>());
  ASSERT_EQ(found.size(), values.size() * 2);
  std::vector<float> widened(values.size());
  WidenToF32(Dtype::kBf16, std::as_bytes(std::span(found)), widened);
  EXPECT_EQ(std::memcmp(widened.data(), values.data(), values.size_bytes()), 0);
}

TEST(Convert, KeepsF32ExactlyAndWidensF16) {
  EditableCheckpoint edited = EditableCheckpoint::Load(FixtureCheckpoint("qwen3_moe_tiny"));
  auto& norm = edited["model.norm.weight"];
  std::string f32;
  for (size_t i = 0; i < norm.info.shape[0]; ++i) {
    const float value = 1.0F + static_cast<float>(i) * 0x1p-20F;
    f32.append(reinterpret_cast<const char*>(&value), 4);
  }
  norm.info.dtype = Dtype::kF32;
  norm.bytes = f32;
  auto& q = edited["model.layers.0.self_attn.q_proj.weight"];
  q.info.dtype = Dtype::kF16;
  for (size_t i = 0; i < q.bytes.size(); i += 2) std::memcpy(&q.bytes[i], "\x01\x3c", 2);
  TemporaryFolder folder;
  edited.Write(folder / "in");
  ASSERT_OK(ConvertTo(folder / "in", folder / "out", Reference()));
  const TensorDirectory model = OpenModel(folder / "out");
  EXPECT_EQ(TensorBytes(model, "model.norm.weight"), f32);
  const std::string wide = TensorBytes(model, "model.layers.0.self_attn.q_proj.weight");
  float first = 0;
  std::memcpy(&first, wide.data(), 4);
  EXPECT_EQ(first, 1.0F + 0x1p-10F);
  EXPECT_EQ(wide.size(), q.bytes.size() * 2);
}

TEST(Convert, TwoAtOnceAreRefused) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "out");
  ASSERT_OK_AND_ASSIGN(const FolderLock lock, FolderLock::Take(folder / "out"));
  EXPECT_THAT(ConvertTo(FixtureCheckpoint("qwen3_moe_long"), folder / "out", {}),
              Fails(Code::kUnavailable, "another conversion"));
}

TEST(Convert, TakesFoldersWithSpacesAndLinkedShards) {
  TemporaryFolder folder;
  const Path blobs = folder / "blobs";
  const Path snapshot = folder / "snap shots" / "modèle \xF0\x9F\x90\xA6";
  std::filesystem::create_directories(blobs);
  std::filesystem::create_directories(snapshot);
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FixtureCheckpoint("gpt_oss_long"))) {
    const Path blob = blobs / fmt::format("{:064x}", ++n);
    std::filesystem::copy_file(entry.path(), blob);
    std::filesystem::create_symlink(blob, snapshot / entry.path().filename());
  }
  ASSERT_OK(ConvertTo(snapshot, folder / "out", {}));
  EXPECT_OK(VerifyModel(folder / "out", 2, kGoOn));
}

TEST(Convert, CopiesCompanionsAsTheyAre) {
  TemporaryFolder folder;
  EditableCheckpoint::Load(FixtureCheckpoint("qwen3_moe_tiny")).Write(folder / "in");
  WriteAll(folder / "in" / "generation_config.json",
           "{\"eos_token_id\": [5, 7],  \"top_k\": 20}\n");
  WriteAll(folder / "in" / "chat_template.jinja", "{{ messages }}\n");
  WriteAll(folder / "in" / "README.md", "not part of a model\n");
  ASSERT_OK_AND_ASSIGN(const ConversionReport report, ConvertTo(folder / "in", folder / "out", {}));
  for (const char* name : {"config.json", "generation_config.json", "chat_template.jinja"}) {
    EXPECT_EQ(ReadAll(folder / "out" / name), ReadAll(folder / "in" / name));
  }
  EXPECT_FALSE(FileExists(folder / "out" / "README.md"));
  EXPECT_THAT(report.notes, testing::ElementsAre(testing::HasSubstr("no tokenizer.json")));
}

}  // namespace
}  // namespace picchio
