// The memory ledger: everything that a run will hold, sized before any of it is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/function_ref.h"
#include "base/memory_info.h"
#include "base/status.h"
#include "model/config.h"

namespace picchio {

// What the model makes necessary. All figures are below 2^60.
struct MemoryDemand {
  uint64_t dense_bytes = 0;
  uint32_t max_context = 0;        // The model's; at least 1.
  uint64_t slot_bytes = 0;         // Of the expert cache, padding included; at least 1.
  uint32_t num_moe_layers = 0;     // At least 1.
  uint64_t num_records = 0;        // Experts of all layers: more slots would stay empty.
  uint64_t records_per_token = 0;  // What one token reads if nothing is cached,
  uint64_t experts_per_token = 0;  // and of each layer.
};

// The demand of a model whose dense weights take so many bytes; slot_bytes: SlotArena::StrideFor
// its source's slots.
MemoryDemand DemandOf(const ModelConfig& config, uint64_t dense_bytes, uint64_t slot_bytes);

// What grows with the run. Both never give less for more.
struct MemoryNeeds {
  // What the KV cache of a context takes, from 1 to max_context.
  FunctionRef<uint64_t(uint32_t context)> kv_bytes;
  // What a span of positions that goes through a layer together takes, at least 1: activations,
  // and what does not depend on it: logits, a session's buffers.
  FunctionRef<uint64_t(uint32_t span)> working_bytes;
};

// What the user asked for; what is absent is chosen.
struct MemoryWishes {
  std::optional<uint32_t> context{};
  std::optional<uint64_t> cache_bytes{};
  std::optional<uint32_t> slots_per_layer{};  // Takes precedence over cache_bytes.
  std::optional<uint32_t> prefill_span{};     // At least 1.
  bool prefetch = false;                      // Slots for experts that are read ahead.
  // The longest prompt that will come, at least 1: a longer span would be of no use.
  uint32_t longest_prompt = UINT32_MAX;
};

struct MemoryPlan {
  uint32_t context = 0;         // Positions.
  uint32_t prefill_span = 0;    // Positions of a prompt that go through a layer together.
  uint64_t num_slots = 0;       // Of the expert cache, at least 2;
  uint64_t prefetch_slots = 0;  // of them, those that are for reading ahead.
  uint64_t dense_bytes = 0;
  uint64_t working_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t cache_bytes = 0;
  uint64_t free_bytes = 0;  // What there was to divide.
  // Of that, what is left for others where the cache may take the rest.
  uint64_t reserve_bytes = 0;
  uint64_t num_records = 0;  // As demanded.
  std::string limit;         // What decided the size of the cache.
  // The cache holds less than a single token reads: it will hit rarely, and more slots are worth
  // more than a longer context.
  bool cache_below_token = false;

  uint64_t total_bytes() const { return dense_bytes + working_bytes + kv_bytes + cache_bytes; }
  // "dense weights 3.1 GiB, KV cache of 8192 positions 1.5 GiB, expert cache of 2427 slots 6.0 GiB,
  // working memory of spans of 4096 positions 500 MiB".
  std::string Breakdown() const;
  // The choice in one line: "expert cache 6.0 GiB, 2427 slots for 39.5 % of 6144 experts, all
  // memory but for a reserve of 409 MiB (8.0 GiB free; limit 10.0 GiB in
  // /sys/fs/cgroup/memory.max)".
  std::string CacheChoice() const;
};

// The default context is the least of the model's, 8192 and what fits, where the KV cache may take
// half of what it shares with an expert cache that is not fixed either, and all beside one that is.
// The default span is 512, and longer where that fits into a quarter of what it then shares with an
// expert cache that is not fixed, or into what a cache leaves that is fixed or holds every expert;
// never longer than the context, the longest prompt, or 4096. The default cache takes what is left
// but for a reserve of a twentieth of the free memory (256 MiB to 2 GiB) for the rest of the
// process and for others. What was asked for may use up the reserve. Prefetch slots are as many as
// a token uses of a layer, where the cache does not hold every expert, has no parts by layer, and
// keeps twice a layer's beside them.
//
// Fails with kInvalidArgument for a context of 0 or beyond the model's and for fewer than 2 slots;
// with kResourceExhausted, giving the figures and what would fit, where the sum exceeds
// memory.FreeForUs().
Result<MemoryPlan> PlanMemory(const MemoryDemand& demand, const MemoryNeeds& needs,
                              const MemoryWishes& wishes, const MemoryInfo& memory);

}  // namespace picchio
