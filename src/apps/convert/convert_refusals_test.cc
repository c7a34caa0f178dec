// What `convert` refuses: one sentence, and nothing that looks whole.
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "apps/convert/checkpoint_test_support.h"
#include "apps/convert/conversion_test_support.h"
#include "apps/convert/journal.h"
#include "format/manifest.h"
#include "support/test_support.h"

namespace picchio {
namespace {

struct BadCheckpoint {
  const char* name;
  const char* fixture;
  void (*spoil)(EditableCheckpoint&);
  ConversionOptions options;
  const char* message;
};

class ConvertRefuses : public testing::TestWithParam<BadCheckpoint> {};

void SetBytes(std::string& bytes, size_t at, std::string_view with) {
  bytes.replace(at, with.size(), with);
}

void SetScaleTo255(EditableCheckpoint& c) {
  SetBytes(c["model.layers.1.mlp.experts.down_proj_scales"].bytes, 5, "\xff");
}

INSTANTIATE_TEST_SUITE_P(
    All, ConvertRefuses,
    testing::Values(
        BadCheckpoint{"missing",
                      "qwen3_moe_tiny",
                      [](auto& c) { c.Remove("model.layers.1.mlp.experts.3.up_proj.weight"); },
                      {},
                      "model.layers.1.mlp.experts.3.up_proj.weight is missing"},
        BadCheckpoint{"misnamed",
                      "qwen3_moe_tiny",
                      [](auto& c) {
                        auto copy = c["model.norm.weight"];
                        copy.info.name = "model.nrom.weight";
                        c.tensors.push_back(copy);
                      },
                      {},
                      "\"model.nrom.weight\" is not part of a Qwen3MoeForCausalLM"},
        BadCheckpoint{"shape",
                      "qwen3_moe_tiny",
                      [](auto& c) {
                        auto& shape = c["model.layers.0.self_attn.k_proj.weight"].info.shape;
                        std::swap(shape[0], shape[1]);
                      },
                      {},
                      "k_proj.weight has the shape [128,64], but config.json asks for [64,128]"},
        BadCheckpoint{"dtype",
                      "qwen3_moe_tiny",
                      [](auto& c) {
                        auto& tensor = c["model.norm.weight"];
                        tensor.info.dtype = Dtype::kU8;
                        tensor.bytes.resize(tensor.info.shape[0]);
                      },
                      {},
                      "model.norm.weight has the type U8, expected BF16"},
        BadCheckpoint{"nan_in_expert",
                      "qwen3_moe_tiny",
                      [](auto& c) {
                        SetBytes(c["model.layers.2.mlp.experts.5.down_proj.weight"].bytes, 258,
                                 "\xc0\x7f");
                      },
                      {},
                      "experts.5.down_proj.weight\": row 2 column 1"},
        BadCheckpoint{"infinity_in_norm",
                      "qwen3_moe_tiny",
                      [](auto& c) { SetBytes(c["model.norm.weight"].bytes, 6, "\x80\x7f"); },
                      {},
                      "model.norm.weight\": row 3 column 0 is NaN or infinite"},
        BadCheckpoint{"nan_in_head",
                      "qwen3_moe_tiny",
                      [](auto& c) { SetBytes(c["lm_head.weight"].bytes, 256, "\xff\xff"); },
                      {},
                      "lm_head.weight\": row 1 column 0"},
        BadCheckpoint{"e8m0_nan",
                      "gpt_oss_tiny",
                      SetScaleTo255,
                      {},
                      "down_proj_scales\": row 1 block 1: its MXFP4 scale is 255"},
        BadCheckpoint{"e8m0_nan_as_safetensors",
                      "gpt_oss_tiny",
                      SetScaleTo255,
                      {.experts = {}, .keep_safetensors = true},
                      "down_proj_scales\": row 1 block 1: its MXFP4 scale is 255"},
        BadCheckpoint{"e8m0_nan_requantised",
                      "gpt_oss_tiny",
                      SetScaleTo255,
                      {.experts = PayloadKind::kInt4},
                      "down_proj_scales\": row 1 block 1: its MXFP4 scale is 255"},
        BadCheckpoint{"e8m0_nan_decoded",
                      "gpt_oss_tiny",
                      SetScaleTo255,
                      {.experts = PayloadKind::kBf16},
                      "down_proj_scales\": row 1 block 1: its MXFP4 scale is 255"},
        BadCheckpoint{"mxfp4_from_bf16",
                      "qwen3_moe_tiny",
                      [](auto&) {},
                      {.experts = PayloadKind::kMxfp4},
                      "this one has none"},
        BadCheckpoint{"bf16_from_f32",
                      "qwen3_moe_tiny",
                      [](auto& c) {
                        auto& tensor = c["model.layers.0.mlp.experts.0.up_proj.weight"];
                        tensor.info.dtype = Dtype::kF32;
                        tensor.bytes.resize(tensor.bytes.size() * 2);
                      },
                      {.experts = PayloadKind::kBf16},
                      "keeps BF16 exactly"},
        BadCheckpoint{"fp8_config",
                      "qwen3_moe_tiny",
                      [](auto& c) {
                        c.SetConfig("quantization_config", {{"quant_method", "fp8"}});
                      },
                      {},
                      "the checkpoint is quantised"},
        BadCheckpoint{"deepseek",
                      "qwen3_moe_tiny",
                      [](auto& c) { c.SetConfig("architectures", {"DeepseekV3ForCausalLM"}); },
                      {},
                      "DeepseekV3ForCausalLM"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(ConvertRefuses, InOneSentenceAndLeavesNothingThatLooksWhole) {
  EditableCheckpoint checkpoint = EditableCheckpoint::Load(FixtureCheckpoint(GetParam().fixture));
  GetParam().spoil(checkpoint);
  TemporaryFolder folder;
  checkpoint.Write(folder / "in");
  const auto report = ConvertTo(folder / "in", folder / "out", GetParam().options);
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message(), testing::HasSubstr(GetParam().message));
  EXPECT_FALSE(FileExists(folder / "out" / kManifestName));
  for (const auto& [name, bytes] : FolderContents(folder / "out")) {
    EXPECT_TRUE(name.ends_with(".picchio-tmp") || name == "conversion.journal") << name;
  }
}

TEST(Convert, RefusesItsOwnInputAndFinishedModels) {
  TemporaryFolder folder;
  EditableCheckpoint::Load(FixtureCheckpoint("qwen3_moe_long")).Write(folder / "in");
  EXPECT_THAT(ConvertTo(folder / "in", folder / "in", {}),
              Fails(Code::kInvalidArgument, "checkpoint's own"));
  std::filesystem::create_directory_symlink(folder / "in", folder / "link");
  EXPECT_THAT(ConvertTo(folder / "in", folder / "link", {}),
              Fails(Code::kInvalidArgument, "checkpoint's own"));
  ASSERT_OK(ConvertTo(folder / "in", folder / "out", {}));
  const auto before = FolderContents(folder / "out");
  EXPECT_THAT(ConvertTo(folder / "in", folder / "out", {}),
              Fails(Code::kInvalidArgument, "already holds a converted model"));
  EXPECT_EQ(FolderContents(folder / "out"), before);
  EXPECT_THAT(ConvertTo(folder / "none", folder / "new", {}), Fails(Code::kNotFound, "none"));
}

TEST(Convert, WritesOverNothingThatIsSomebodyElses) {
  TemporaryFolder folder;
  for (const char* name : {"config.json", "dense.safetensors", "experts.picchioflat"}) {
    const Path out = folder / (std::string("with-") + name);
    std::filesystem::create_directories(out);
    WriteAll(out / name, "precious");
    EXPECT_THAT(ConvertTo(FixtureCheckpoint("qwen3_moe_long"), out, {}),
                Fails(Code::kInvalidArgument, "already exists"));
    EXPECT_EQ(FolderContents(out), (std::map<std::string, std::string>{{name, "precious"}}));
  }
  // What it would not write it leaves alone.
  std::filesystem::create_directories(folder / "notes");
  WriteAll(folder / "notes" / "notes.txt", "mine");
  EXPECT_OK(ConvertTo(FixtureCheckpoint("qwen3_moe_long"), folder / "notes", {}));
  EXPECT_EQ(ReadAll(folder / "notes" / "notes.txt"), "mine");
}

TEST(Convert, AConvertedModelIsNoCheckpoint) {
  TemporaryFolder folder;
  ASSERT_OK(ConvertTo(FixtureCheckpoint("qwen3_moe_long"), folder / "model", {}));
  EXPECT_THAT(ConvertTo(folder / "model", folder / "again", {}),
              Fails(Code::kInvalidArgument, "a converted model already"));
}

// Names that are like its own, and are not.
TEST(Convert, AResumedOneLeavesOtherPeoplesFiles) {
  TemporaryFolder out;
  std::atomic<bool> stop{true};
  ASSERT_THAT(Convert(FixtureCheckpoint("qwen3_moe_long"), out.path(), Kept(), 1, stop),
              Fails(Code::kCancelled, ""));
  const char* const kTheirs[] = {"experts-notes.txt",
                                 "experts-00001.safetensors.bak",
                                 "experts-1.safetensors",
                                 "experts-000001.safetensors",
                                 "experts-+0001.safetensors",
                                 "experts-.safetensors",
                                 "experts-0000a.safetensors",
                                 "experts-notes.txt.picchio-tmp",
                                 "experts-99999999999.safetensors"};
  for (const char* name : kTheirs) WriteAll(out / name, "mine");
  ASSERT_OK(ConvertTo(FixtureCheckpoint("qwen3_moe_long"), out.path(), Kept()));
  for (const char* name : kTheirs) EXPECT_EQ(ReadAll(out / name), "mine") << name;
}

// Each file of a checkpoint, with what a broken download leaves in its place.
TEST(Convert, SaysWhatAFileIsInstead) {
  const EditableCheckpoint checkpoint =
      EditableCheckpoint::Load(FixtureCheckpoint("qwen3_moe_long"));
  for (const char* name :
       {"config.json", "model.safetensors", "generation_config.json", "tokenizer.json",
        "chat_template.jinja", "model.safetensors.index.json"}) {
    TemporaryFolder folder;
    checkpoint.Write(folder / "in");
    WriteAll(folder / "in" / name,
             "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
    EXPECT_THAT(ConvertTo(folder / "in", folder / "out", {}),
                Fails(Code::kUnsupported, "git lfs pull"))
        << name;
    std::filesystem::remove(folder / "in" / name);
    std::filesystem::create_directory(folder / "in" / name);
    EXPECT_THAT(ConvertTo(folder / "in", folder / "out", {}),
                Fails(Code::kInvalidArgument, "is a folder, not a regular file"))
        << name;
  }
}

TEST(Convert, RefusesATokenizerLargerThanTheVocabulary) {
  TemporaryFolder folder;
  EditableCheckpoint::Load(FixtureCheckpoint("qwen3_moe_tiny")).Write(folder / "in");
  std::filesystem::copy_file(TestData("tokenizers/demo/tokenizer.json"),
                             folder / "in" / "tokenizer.json");
  EXPECT_THAT(ConvertTo(folder / "in", folder / "out", {}), Fails(Code::kCorrupt, "512"));
}

}  // namespace
}  // namespace picchio
