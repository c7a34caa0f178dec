#include "format/expert_container.h"

namespace picchio {
namespace {

std::string NameOf(int layer, const char* matrix) {
  return fmt::format("model.layers.{}.mlp.experts.{}", layer, matrix);
}

void AppendMatrix(PayloadKind kind, const std::string& name, uint64_t rows, uint64_t cols,
                  const RecordPart& weights, const RecordPart& scales,
                  std::vector<ExpertTensor>& tensors) {
  switch (kind) {
    case PayloadKind::kInt4:
      tensors.push_back({name, Dtype::kU8, {weights.bytes}, weights});
      tensors.push_back({name + ".qs", Dtype::kF32, {scales.bytes / sizeof(float)}, scales});
      return;
    case PayloadKind::kMxfp4:
      tensors.push_back({name + ".blocks", Dtype::kU8, {rows, cols / 32, 16}, weights});
      tensors.push_back({name + ".scales", Dtype::kU8, {rows, cols / 32}, scales});
      return;
    case PayloadKind::kBf16:
      tensors.push_back({name, Dtype::kBf16, {rows, cols}, weights});
      return;
  }
}

}  // namespace

std::vector<ExpertTensor> ExpertTensors(const ExpertRecordLayout& layout, int layer, int expert) {
  std::vector<ExpertTensor> tensors;
  const auto append = [&](const char* matrix, uint64_t rows, uint64_t cols,
                          const RecordPart& weights, const RecordPart& scales) {
    AppendMatrix(layout.kind, fmt::format("{}.{}", NameOf(layer, matrix), expert), rows, cols,
                 weights, scales, tensors);
  };
  append("gate_up_proj", uint64_t{2} * layout.intermediate_size, layout.hidden_size, layout.gate_up,
         layout.gate_up_scales);
  append("down_proj", layout.hidden_size, layout.intermediate_size, layout.down,
         layout.down_scales);
  return tensors;
}

std::vector<ExpertTensor> ExpertBiasTensors(const ExpertRecordLayout& layout, int layer,
                                            int num_experts) {
  std::vector<ExpertTensor> tensors;
  const auto append = [&](const char* matrix, const RecordPart& bias) {
    if (bias.bytes == 0) return;
    tensors.push_back({NameOf(layer, matrix),
                       Dtype::kBf16,
                       {static_cast<uint64_t>(num_experts), bias.bytes / sizeof(float)},
                       bias});
  };
  append("gate_up_proj_bias", layout.gate_up_bias);
  append("down_proj_bias", layout.down_bias);
  return tensors;
}

}  // namespace picchio
