#include "format/tensor_directory.h"

#include <filesystem>
#include <map>
#include <thread>

#include "support/test_support.h"

namespace picchio {
namespace {

using Tensors = std::map<std::string, std::string>;  // Name to bytes.

// Writes a safetensors file of U8 vectors.
void WriteShard(const Path& path, const Tensors& tensors) {
  std::vector<TensorInfo> infos;
  std::string data;
  for (const auto& [name, bytes] : tensors) {
    infos.push_back({name, Dtype::kU8, {bytes.size()}});
    data += bytes;
  }
  ASSERT_OK_AND_ASSIGN(const std::string header, MakeSafetensorsHeader(infos, 8));
  WriteAll(path, header + data);
}

void WriteIndex(const Path& folder, const std::map<std::string, std::string>& weight_map) {
  std::string json;
  for (const auto& [tensor, file] : weight_map) {
    json += fmt::format(R"({}"{}":"{}")", json.empty() ? "" : ",", tensor, file);
  }
  WriteAll(folder / "model.safetensors.index.json",
           fmt::format(R"({{"weight_map":{{{}}}}})", json));
}

std::string BytesOf(const TensorDirectory& directory, std::string_view name) {
  const auto tensor = directory.Get(name);
  if (!tensor.has_value()) return tensor.error().message();
  std::string bytes((*tensor)->bytes, '\0');
  EXPECT_OK(directory.Read(**tensor, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

TEST(TensorDirectory, OpensEveryFixture) {
  const std::pair<const char*, size_t> kFixtures[] = {{"qwen3_moe_tiny", 2},
                                                      {"qwen3_moe_tiny_dense", 3},
                                                      {"gpt_oss_tiny", 2},
                                                      {"qwen3_moe_long", 2},
                                                      {"gpt_oss_long", 2}};
  for (const auto& [name, shards] : kFixtures) {
    ASSERT_OK_AND_ASSIGN(
        const TensorDirectory directory,
        TensorDirectory::OpenCheckpoint(TestData(std::string("fixtures/") + name + "/checkpoint")));
    EXPECT_EQ(directory.num_files(), shards);
    ASSERT_OK_AND_ASSIGN(const TensorEntry* norm, directory.Get("model.norm.weight"));
    EXPECT_EQ(norm->dtype, Dtype::kBf16);
    EXPECT_EQ(norm->shape.size(), 1u);
  }
}

TEST(TensorDirectory, OpensASingleFile) {
  TemporaryFolder folder;
  WriteShard(folder / "model.safetensors", {{"a", "123"}, {"b \u4e2d", "4567"}});
  WriteAll(folder / "model.gguf", "GGUF");  // Beside a good checkpoint, nothing to mind.
  ASSERT_OK_AND_ASSIGN(const TensorDirectory directory,
                       TensorDirectory::OpenCheckpoint(folder.path()));
  EXPECT_EQ(directory.num_files(), 1u);
  EXPECT_EQ(directory.file_name(0), "model.safetensors");
  EXPECT_EQ(directory.file_bytes(0), std::filesystem::file_size(folder / "model.safetensors"));
  EXPECT_EQ(BytesOf(directory, "a"), "123");
  EXPECT_EQ(BytesOf(directory, "b \u4e2d"), "4567");
  EXPECT_EQ(directory.Find("c"), nullptr);
  EXPECT_THAT(directory.Get("c"), Fails(Code::kNotFound, "tensor \"c\" is in none"));
  ASSERT_EQ(directory.tensors().size(), 2u);
  EXPECT_EQ(directory.tensors()[0].name, "a");
}

TEST(TensorDirectory, FollowsLinksAsInADownloadCache) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "blobs");
  std::filesystem::create_directories(folder / "snapshot \u00e9");
  WriteShard(folder / "blobs/0a1b", {{"a", "1"}});
  WriteShard(folder / "blobs/2c3d", {{"b", "2"}});
  const Path snapshot = folder / "snapshot \u00e9";
  std::filesystem::create_symlink("../blobs/0a1b", snapshot / "1.safetensors");
  std::filesystem::create_symlink("../blobs/2c3d", snapshot / "2 \u00e9.safetensors");
  WriteIndex(folder / "blobs", {{"a", "1.safetensors"}, {"b", "2 \u00e9.safetensors"}});
  std::filesystem::create_symlink("../blobs/model.safetensors.index.json",
                                  snapshot / "model.safetensors.index.json");
  ASSERT_OK_AND_ASSIGN(const TensorDirectory directory, TensorDirectory::OpenCheckpoint(snapshot));
  EXPECT_EQ(BytesOf(directory, "a"), "1");
  EXPECT_EQ(BytesOf(directory, "b"), "2");
  // The link stays, what it leads to goes.
  std::filesystem::remove(folder / "blobs/2c3d");
  EXPECT_THAT(TensorDirectory::OpenCheckpoint(snapshot),
              Fails(Code::kNotFound, "\"2 \u00e9.safetensors\" of"));
}

TEST(TensorDirectory, HoldsShardsToTheIndex) {
  TemporaryFolder folder;
  const auto open = [&] { return TensorDirectory::OpenCheckpoint(folder.path()); };
  WriteShard(folder / "1", {{"a", "1"}, {"b", "2"}});
  WriteShard(folder / "2", {{"c", "3"}});
  WriteIndex(folder.path(), {{"a", "1"}, {"b", "1"}, {"c", "2"}});
  EXPECT_OK(open());
  WriteIndex(folder.path(), {{"a", "1"}, {"b", "2"}, {"c", "2"}});
  EXPECT_THAT(open(), Fails(Code::kCorrupt, "tensor \"b\" should be in \"2\", but is in \"1\""));
  WriteIndex(folder.path(), {{"a", "1"}, {"b", "1"}, {"c", "2"}, {"d", "2"}});
  EXPECT_THAT(open(), Fails(Code::kCorrupt, "tensor \"d\" should be in \"2\", but is in no shard"));
  WriteIndex(folder.path(), {{"a", "1"}, {"c", "2"}});
  EXPECT_THAT(open(), Fails(Code::kCorrupt, "tensor \"b\" of \"1\" is not listed"));
  WriteIndex(folder.path(), {{"a", "1"}, {"b", "1"}, {"c", "3"}});
  EXPECT_THAT(open(), Fails(Code::kNotFound, "\"3\" of"));
  WriteShard(folder / "2", {{"a", "1"}, {"c", "3"}});
  WriteIndex(folder.path(), {{"a", "1"}, {"b", "1"}, {"c", "2"}});
  EXPECT_THAT(open(), Fails(Code::kCorrupt, "tensor \"a\" stands twice"));
  WriteIndex(folder.path(), {{"a", "../x"}});
  EXPECT_THAT(open(), Fails(Code::kCorrupt, "\"../x\""));
}

TEST(TensorDirectory, RefusesTwoCheckpointsInOneFolder) {
  TemporaryFolder folder;
  WriteShard(folder / "1", {{"a", "1"}});
  WriteShard(folder / "model.safetensors", {{"a", "1"}});
  WriteIndex(folder.path(), {{"a", "1"}});
  EXPECT_THAT(TensorDirectory::OpenCheckpoint(folder.path()), Fails(Code::kCorrupt, "both"));
  WriteIndex(folder.path(), {{"a", "model.safetensors"}});
  EXPECT_OK(TensorDirectory::OpenCheckpoint(folder.path()));
}

TEST(TensorDirectory, SaysWhatElseAFolderHolds) {
  TemporaryFolder folder;
  const auto open = [&] { return TensorDirectory::OpenCheckpoint(folder.path()); };
  EXPECT_THAT(TensorDirectory::OpenCheckpoint(folder / "none"), Fails(Code::kIoError, "none"));
  EXPECT_THAT(open(), Fails(Code::kNotFound, "is no checkpoint"));
  WriteAll(folder / "pytorch_model.bin", "PK");
  EXPECT_THAT(open(), Fails(Code::kUnsupported, "\"pytorch_model.bin\": PyTorch"));
  WriteAll(folder / "model-Q4_K_M.gguf", "GGUF");
  EXPECT_THAT(open(), Fails(Code::kUnsupported, "\"model-Q4_K_M.gguf\": GGUF"));
  WriteAll(folder / "model-00001-of-00002.safetensors", "");
  EXPECT_THAT(open(), Fails(Code::kNotFound, "fetch what is missing"));
  WriteAll(folder / "model.safetensors", "GGUF....");
  EXPECT_THAT(open(), Fails(Code::kUnsupported, "is a GGUF file"));
}

TEST(TensorDirectory, OpensListedFiles) {
  TemporaryFolder folder;
  WriteShard(folder / "dense.safetensors", {{"a", "1"}});
  WriteShard(folder / "experts-00001.safetensors", {{"b", "2"}});
  const std::vector<std::string> names = {"dense.safetensors", "experts-00001.safetensors"};
  ASSERT_OK_AND_ASSIGN(const TensorDirectory directory,
                       TensorDirectory::OpenFiles(folder.path(), names));
  EXPECT_EQ(directory.file_name(directory.Find("b")->file_idx), names[1]);
  const std::vector<std::string> escape = {"../dense.safetensors"};
  EXPECT_THAT(TensorDirectory::OpenFiles(folder.path(), escape),
              Fails(Code::kInvalidArgument, "is not the name of a file"));
  std::filesystem::create_directory(folder / "folder");
  const std::vector<std::string> not_a_file = {"folder"};
  EXPECT_THAT(TensorDirectory::OpenFiles(folder.path(), not_a_file),
              Fails(Code::kInvalidArgument, "regular file"));
}

TEST(TensorDirectory, ReadsPartsAndChecksTheirBounds) {
  TemporaryFolder folder;
  WriteShard(folder / "model.safetensors", {{"a", "012345"}, {"b", "x"}});
  ASSERT_OK_AND_ASSIGN(const TensorDirectory directory,
                       TensorDirectory::OpenCheckpoint(folder.path()));
  ASSERT_OK_AND_ASSIGN(const TensorEntry* a, directory.Get("a"));
  std::string part(3, '\0');
  const auto bytes = std::as_writable_bytes(std::span(part));
  ASSERT_OK(directory.ReadAt(*a, 2, bytes));
  EXPECT_EQ(part, "234");
  EXPECT_OK(directory.ReadAt(*a, 3, bytes));
  EXPECT_OK(directory.ReadAt(*a, 6, {}));
  EXPECT_THAT(directory.ReadAt(*a, 4, bytes), Fails(Code::kInvalidArgument, "asked for 3 from 4"));
  EXPECT_THAT(directory.ReadAt(*a, ~uint64_t{0}, bytes), Fails(Code::kInvalidArgument, "\"a\""));
  EXPECT_THAT(directory.Read(*a, bytes), Fails(Code::kInvalidArgument, "has 6 bytes; asked for 3"));
}

TEST(TensorDirectory, ReadsFromManyThreads) {
  TemporaryFolder folder;
  WriteShard(folder / "model.safetensors",
             {{"a", std::string(1000, 'a')}, {"b", std::string(1000, 'b')}});
  ASSERT_OK_AND_ASSIGN(const TensorDirectory directory,
                       TensorDirectory::OpenCheckpoint(folder.path()));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&directory, name = t % 2 == 0 ? "a" : "b"] {
      for (int i = 0; i < 100; ++i) EXPECT_EQ(BytesOf(directory, name), std::string(1000, *name));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace picchio
