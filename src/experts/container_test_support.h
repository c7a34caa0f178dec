// Model directories for tests: the experts of TestRecord as the safetensors container holds them.
// Names, types and shapes are spelled out here and not taken from format/expert_container.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/file.h"
#include "experts/records_test_support.h"
#include "format/safetensors.h"

namespace picchio {

struct TestTensor {
  std::string name;
  Dtype dtype = Dtype::kU8;
  std::vector<uint64_t> shape;
  std::string bytes;
};

// A safetensors file with the tensors in this order.
inline std::string SafetensorsImage(const std::vector<TestTensor>& tensors) {
  std::vector<TensorInfo> infos;
  std::string data;
  for (const TestTensor& tensor : tensors) {
    TensorInfo& info = infos.emplace_back();
    info.name = tensor.name;
    info.dtype = tensor.dtype;
    info.shape = tensor.shape;
    data += tensor.bytes;
  }
  return MakeSafetensorsHeader(infos, 8).value() + data;
}

// Of one expert, in the order of its record.
inline std::vector<TestTensor> TestExpertTensors(const ExpertRecordLayout& layout, ExpertKey key) {
  const std::vector<std::byte> record = TestRecord(key, layout);
  const std::string prefix = "model.layers." + std::to_string(key.layer) + ".mlp.experts.";
  const std::string suffix = "." + std::to_string(key.expert);
  std::vector<TestTensor> tensors;
  const auto append = [&](const std::string& name, Dtype dtype, std::vector<uint64_t> shape,
                          const RecordPart& part) {
    tensors.push_back(
        {name, dtype, std::move(shape),
         std::string(reinterpret_cast<const char*>(record.data()) + part.offset, part.bytes)});
  };
  const auto append_matrix = [&](const std::string& name, uint64_t rows, uint64_t cols,
                                 const RecordPart& weights, const RecordPart& scales) {
    switch (layout.kind) {
      case PayloadKind::kInt4:
        append(name, Dtype::kU8, {rows * cols / 2}, weights);
        append(name + ".qs", Dtype::kF32, {rows * ((cols + 63) / 64)}, scales);
        break;
      case PayloadKind::kMxfp4:
        append(name + ".blocks", Dtype::kU8, {rows, cols / 32, 16}, weights);
        append(name + ".scales", Dtype::kU8, {rows, cols / 32}, scales);
        break;
      case PayloadKind::kBf16:
        append(name, Dtype::kBf16, {rows, cols}, weights);
        break;
    }
  };
  const uint64_t hidden = layout.hidden_size;
  const uint64_t inner = layout.intermediate_size;
  append_matrix(prefix + "gate_up_proj" + suffix, 2 * inner, hidden, layout.gate_up,
                layout.gate_up_scales);
  append_matrix(prefix + "down_proj" + suffix, hidden, inner, layout.down, layout.down_scales);
  return tensors;
}

// The biases of all experts of a layer, as BF16: the high halves of the records' F32.
inline std::vector<TestTensor> TestBiasTensors(const ExpertRecordLayout& layout, int layer,
                                               int num_experts) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.experts.";
  std::vector<TestTensor> tensors;
  for (const auto& [name, part] : {std::pair(prefix + "gate_up_proj_bias", layout.gate_up_bias),
                                   std::pair(prefix + "down_proj_bias", layout.down_bias)}) {
    if (part.bytes == 0) continue;
    std::string bytes;
    for (int expert = 0; expert < num_experts; ++expert) {
      const std::vector<std::byte> record = TestRecord({layer, expert}, layout);
      for (uint64_t i = 0; i < part.bytes; ++i) {
        if (i % 4 >= 2) bytes += static_cast<char>(record[part.offset + i]);
      }
    }
    tensors.push_back(
        {name, Dtype::kBf16, {static_cast<uint64_t>(num_experts), part.bytes / 4}, bytes});
  }
  return tensors;
}

using TestFiles = std::map<std::string, std::vector<TestTensor>>;  // By file name.

// Biases and something else in dense.safetensors; experts of layers [first_layer, end_layer) in two
// files, in the first with each expert's tensors in the order of its record, in the second
// reversed.
inline TestFiles TestContainer(const ExpertRecordLayout& layout, int first_layer, int end_layer,
                               int num_experts) {
  TestFiles files;
  files["dense.safetensors"].push_back({"model.norm.weight", Dtype::kBf16, {3}, "normal"});
  for (int layer = first_layer; layer < end_layer; ++layer) {
    for (TestTensor& bias : TestBiasTensors(layout, layer, num_experts)) {
      files["dense.safetensors"].push_back(std::move(bias));
    }
    for (int expert = 0; expert < num_experts; ++expert) {
      std::vector<TestTensor> tensors = TestExpertTensors(layout, {layer, expert});
      const bool first_file = expert < num_experts / 2;
      if (!first_file) std::reverse(tensors.begin(), tensors.end());
      auto& file = files[first_file ? "experts-00001.safetensors" : "experts-00002.safetensors"];
      std::move(tensors.begin(), tensors.end(), std::back_inserter(file));
    }
  }
  return files;
}

inline Status WriteTestFiles(const Path& folder, const TestFiles& files) {
  for (const auto& [name, tensors] : files) {
    PICCHIO_RETURN_IF_ERROR(WriteFileAtomically(folder / name, SafetensorsImage(tensors)));
  }
  return Status::Ok();
}

}  // namespace picchio
