// A model as far as a plan looks at it: one that is here, or a shape that may be made or
// downloaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/plan/stand_in_weights.h"
#include "apps/run/run_memory.h"
#include "base/file.h"
#include "base/status.h"
#include "format/expert_record.h"
#include "model/config.h"

namespace picchio {

struct PlannedModel {
  std::string name{};
  ModelConfig config{};
  ExpertRecordLayout layout{};
  uint64_t slot_bytes = 0;  // Of a record as it is read.
  DenseTypes types{};
  uint64_t dense_bytes = 0;
  // With attention matrices as INT8; the same where they are that already.
  uint64_t int8_dense_bytes = 0;
  // Where experts are used as unevenly as `synth --skew` says, and that is known.
  std::optional<double> skew{};
  std::optional<Path> folder{};  // Of a model that is here.

  RunDemand DemandFor(int num_threads, bool int8_attention) const {
    return {.config = config,
            .layout = layout,
            .dense_bytes = int8_attention ? int8_dense_bytes : dense_bytes,
            .slot_bytes = slot_bytes,
            .num_threads = num_threads};
  }
};

// A folder of a converted model; where there is none of that name, one of synth's shapes, as
// synth would make it. Fails as opening the model fails; with kInvalidArgument, listing the shapes,
// where it is neither.
Result<PlannedModel> FindPlannedModel(const std::string& model_or_shape);

}  // namespace picchio
