// The memory of a run, from what the model is: for runs themselves, and for plans of runs.
#pragma once

#include <cstdint>

#include "base/memory_info.h"
#include "base/status.h"
#include "engine/memory_plan.h"
#include "format/expert_record.h"
#include "model/config.h"
#include "model/step_context.h"

namespace picchio {

// What of a model, and of the way it is run, decides how much memory that takes. Borrows both.
struct RunDemand {
  const ModelConfig& config;
  const ExpertRecordLayout& layout;
  uint64_t dense_bytes = 0;
  uint64_t slot_bytes = 0;  // Of a record as its source reads it, padding included.
  Compute compute = Compute::kInt8;
  int num_threads = 1;
};

// The ledger of a run in that memory; refuses what does not fit with the figures (PlanMemory).
Result<MemoryPlan> PlanRun(const RunDemand& demand, const MemoryWishes& wishes,
                           const MemoryInfo& memory);

}  // namespace picchio
