#include "apps/run/run_memory.h"

#include "engine/session.h"
#include "experts/slot_arena.h"
#include "model/forward_pass.h"
#include "model/kv_cache.h"

namespace picchio {

Result<MemoryPlan> PlanRun(const RunDemand& demand, const MemoryWishes& wishes,
                           const MemoryInfo& memory) {
  const ModelConfig& config = demand.config;
  const auto kv_bytes = [&](uint32_t context) { return KvCache::BytesFor(config, context); };
  const auto working_bytes = [&](uint32_t span) {
    return ForwardPass::WorkingBytes(config, demand.layout,
                                     {.max_rows = span, .compute = demand.compute},
                                     demand.num_threads) +
           Session::BufferBytes(config);
  };
  return PlanMemory(DemandOf(config, demand.dense_bytes, SlotArena::StrideFor(demand.slot_bytes)),
                    {.kv_bytes = kv_bytes, .working_bytes = working_bytes}, wishes, memory);
}

}  // namespace picchio
