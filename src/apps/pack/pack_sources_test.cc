// What pack takes records from, and whose file it may replace.
#include "apps/pack/pack.h"
#include "apps/pack/store_test_support.h"

namespace picchio {
namespace {

Result<PackReport> PackInto(const Path& model, const Path& store,
                            RecordVersion version = RecordVersion::kV3) {
  return Pack(model, {.output = store, .version = version}, 2, kGoOn);
}

void FlipByte(const Path& file, uint64_t at) {
  std::string bytes = ReadAll(file);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  WriteAll(file, bytes);
}

// A store's own hashes would make damaged weights look right for ever.
TEST(PackSources, DamagedSafetensorsAreNotPackedAndTheOldStoreStays) {
  TemporaryFolder folder;
  for (const auto version : {RecordVersion::kV2, RecordVersion::kV3}) {
    const Path model = folder / fmt::format("v{}", static_cast<int>(version));
    MakeModel("qwen3_moe_tiny", PayloadKind::kInt4, model);
    const Path experts = model / "experts-00001.safetensors";
    FlipByte(experts, std::filesystem::file_size(experts) - 4000);
    const auto before = FolderContents(model);
    EXPECT_THAT(PackInto(model, model / "experts.picchioflat", version),
                Fails(Code::kCorrupt, "are damaged"));
    EXPECT_THAT(PackInto(model, model / "experts.picchioflat", version),
                Fails(Code::kCorrupt, "layer 1 expert"));
    EXPECT_TRUE(FolderContents(model) == before);
  }
}

TEST(PackSources, DamagedBiasesAreNotPacked) {
  TemporaryFolder folder;
  const Path model = folder / "model";
  MakeModel("gpt_oss_tiny", PayloadKind::kMxfp4, model);
  ASSERT_OK_AND_ASSIGN(
      const TensorDirectory tensors,
      TensorDirectory::OpenFiles(model, std::vector<std::string>{"dense.safetensors"}));
  for (const char* name : {"model.layers.0.mlp.experts.gate_up_proj_bias",
                           "model.layers.1.mlp.experts.down_proj_bias"}) {
    const TensorEntry* bias = tensors.Find(name);
    ASSERT_NE(bias, nullptr);
    const uint64_t last = bias->offset + bias->bytes - 1;
    FlipByte(model / "dense.safetensors", last);
    EXPECT_THAT(PackInto(model, folder / "store"), Fails(Code::kCorrupt, name));
    FlipByte(model / "dense.safetensors", last);
  }
  EXPECT_OK(PackInto(model, folder / "store"));
}

TEST(PackSources, AnotherModelsStoreIsNotReplaced) {
  TemporaryFolder folder;
  MakeModel("qwen3_moe_tiny", PayloadKind::kInt4, folder / "one");
  MakeModel("gpt_oss_tiny", PayloadKind::kMxfp4, folder / "other");
  const auto before = FolderContents(folder / "other");
  for (const auto version : {RecordVersion::kV2, RecordVersion::kV3}) {
    EXPECT_THAT(PackInto(folder / "one", folder / "other" / "experts.picchioflat", version),
                Fails(Code::kInvalidArgument, "another model"));
  }
  // Through a link as well.
  std::filesystem::create_symlink(folder / "other" / "experts.picchioflat", folder / "link");
  EXPECT_THAT(PackInto(folder / "one", folder / "link"),
              Fails(Code::kInvalidArgument, "another model"));
  EXPECT_TRUE(FolderContents(folder / "other") == before);
}

TEST(PackSources, AFolderThatSomebodyWritesToIsLeftAlone) {
  TemporaryFolder folder;
  MakeModel("qwen3_moe_tiny", PayloadKind::kInt4, folder / "model");
  std::filesystem::create_directory(folder / "busy");
  ASSERT_OK_AND_ASSIGN(const FolderLock lock, FolderLock::Take(folder / "busy"));
  EXPECT_THAT(PackInto(folder / "model", folder / "busy" / "store"),
              Fails(Code::kUnavailable, "another picchio is writing to"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "busy"));
}

}  // namespace
}  // namespace picchio
