// How a model directory's safetensors files hold experts: the tensors of each, and which part of
// the expert's record (format/expert_record.h) they are. Who writes the container and who reads it
// agree here.
//
//   model.layers.{L}.mlp.experts.gate_up_proj.{E}           INT4: U8, packed nibbles, flat
//   model.layers.{L}.mlp.experts.gate_up_proj.{E}.qs              F32, scales, flat
//   model.layers.{L}.mlp.experts.gate_up_proj.{E}.blocks    MXFP4: U8 [rows, cols / 32, 16]
//   model.layers.{L}.mlp.experts.gate_up_proj.{E}.scales           U8 [rows, cols / 32]
//   model.layers.{L}.mlp.experts.gate_up_proj.{E}           BF16: [rows, cols]
//
// and down_proj likewise. Biases stay where the checkpoint has them, one tensor for all experts of
// a layer: model.layers.{L}.mlp.experts.gate_up_proj_bias, [num_experts, 2 * intermediate_size],
// BF16 where the checkpoint has BF16, else F32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/dtype.h"
#include "format/expert_record.h"

namespace picchio {

struct ExpertTensor {
  std::string name;
  Dtype dtype = Dtype::kU8;
  std::vector<uint64_t> shape;
  RecordPart part;  // Where the record has its bytes.
};

// The tensors of one expert in the order of the record's parts, biases left out. Written one after
// the other in this order, those of a version 2 record are the record.
std::vector<ExpertTensor> ExpertTensors(const ExpertRecordLayout& layout, int layer, int expert);

// The tensors with the biases of all experts of a layer: none where the layout has no biases.
// `part` is where each record has its row, as F32. `dtype` is BF16; F32 may stand in its place.
std::vector<ExpertTensor> ExpertBiasTensors(const ExpertRecordLayout& layout, int layer,
                                            int num_experts);

}  // namespace picchio
