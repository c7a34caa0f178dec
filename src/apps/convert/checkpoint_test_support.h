// Fixture checkpoints as a test wants them: loaded, spoilt in one place, written again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "format/safetensors.h"
#include "format/tensor_directory.h"
#include "support/test_support.h"

namespace picchio {

inline Path FixtureCheckpoint(std::string_view fixture) {
  return TestData("fixtures") / fixture / "checkpoint";
}

// A checkpoint in memory: one shard is enough for what tests do with it.
struct EditableCheckpoint {
  struct Tensor {
    TensorInfo info;
    std::string bytes;
  };
  std::string config;
  std::vector<Tensor> tensors;

  static EditableCheckpoint Load(const Path& folder) {
    EditableCheckpoint checkpoint;
    checkpoint.config = ReadAll(folder / "config.json");
    const Result<TensorDirectory> directory = TensorDirectory::OpenCheckpoint(folder);
    EXPECT_OK(directory);
    for (const TensorEntry& entry : directory->tensors()) {
      std::string bytes(entry.bytes, '\0');
      EXPECT_OK(directory->Read(entry, std::as_writable_bytes(std::span(bytes))));
      checkpoint.tensors.push_back({entry, std::move(bytes)});
    }
    return checkpoint;
  }

  Tensor& operator[](std::string_view name) {
    for (Tensor& tensor : tensors) {
      if (tensor.info.name == name) return tensor;
    }
    ADD_FAILURE() << "no tensor " << name;
    return tensors.front();
  }

  void Remove(std::string_view name) {
    std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.info.name == name; });
  }

  // Changes one field of config.json.
  void SetConfig(const std::string& field, const Json& value) {
    Json json = Json::parse(config);
    json[field] = value;
    config = json.dump();
  }

  void Write(const Path& folder) const {
    std::filesystem::create_directories(folder);
    WriteAll(folder / "config.json", config);
    std::vector<TensorInfo> infos;
    for (const Tensor& tensor : tensors) infos.push_back(tensor.info);
    Result<std::string> file = MakeSafetensorsHeader(infos, 8);
    ASSERT_OK(file);
    for (const Tensor& tensor : tensors) *file += tensor.bytes;
    WriteAll(folder / "model.safetensors", *file);
  }
};

}  // namespace picchio
