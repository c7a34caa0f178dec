// How large a model is and what a token costs: arithmetic on its config, for planning and reports.
// No overflow: a config's limits keep every figure below 2^63.
#pragma once

#include <cstdint>

#include "model/config.h"

namespace picchio {

struct ModelSizes {
  uint64_t total_parameters = 0;    // As checkpoints count them; a tied head once.
  uint64_t active_parameters = 0;   // Those that one token uses; of the embedding one row.
  uint64_t dense_parameters = 0;    // All but the routed experts' matrices.
  uint64_t expert_parameters = 0;   // Of one routed expert's matrices.
  uint64_t num_expert_records = 0;  // MoE layers x experts.
  uint64_t records_per_token = 0;   // MoE layers x experts per token: what an uncached token reads.
  // Keys and values as KvCache keeps them: of each position in the layers that see all, and, once
  // for a sequence, of the sliding layers, without checkpoints.
  uint64_t kv_bytes_per_position = 0;
  uint64_t kv_window_bytes = 0;
};

ModelSizes SizesOf(const ModelConfig& config);

}  // namespace picchio
