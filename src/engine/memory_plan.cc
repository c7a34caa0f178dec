#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/human.h"
#include "base/units.h"
#include "experts/expert_cache.h"
#include "model/model_sizes.h"

namespace picchio {
namespace {

constexpr uint32_t kDefaultContext = 8192;
// Below this a default is of no use to anybody: better to refuse and show the figures.
constexpr uint32_t kLeastDefaultContext = 256;
constexpr uint32_t kContextStep = 64;  // Attention's block: a default is a whole number of them.
constexpr uint64_t kLeastSlots = 2;
// Every span reads the union of its experts once: the longer, the fewer bytes a position costs. At
// 4096 positions an expert of Qwen3-30B serves 256 rows on average: 2.4 GFLOP for 2.65 MB, which no
// drive is too slow for, and a layer still ends soon enough for a run to be stopped.
constexpr uint32_t kMostSpan = 4096;
constexpr uint32_t kLeastSpan = 512;

uint64_t Less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

using BytesOf = FunctionRef<uint64_t(uint32_t)>;

// The most positions, up to `limit`, that take at most `bytes`; 0 where one is too many.
uint32_t PositionsWithin(BytesOf bytes_of, uint64_t bytes, uint32_t limit) {
  uint32_t fits = 0;
  uint32_t too_many = limit + 1;
  while (too_many - fits > 1) {
    const uint32_t middle = fits + (too_many - fits) / 2;
    (bytes_of(middle) <= bytes ? fits : too_many) = middle;
  }
  return fits;
}

uint32_t DefaultContext(const MemoryDemand& demand, BytesOf kv_bytes, uint64_t bytes) {
  const uint32_t most = std::min(demand.max_context, kDefaultContext);
  const uint32_t fits = PositionsWithin(kv_bytes, bytes, most);
  if (fits == most) return most;
  return std::max(std::min(most, kLeastDefaultContext), fits / kContextStep * kContextStep);
}

std::optional<uint64_t> SlotsAskedFor(const MemoryDemand& demand, const MemoryWishes& wishes) {
  if (wishes.slots_per_layer.has_value()) {
    return uint64_t{*wishes.slots_per_layer} * std::max(demand.num_moe_layers, 1u);
  }
  if (wishes.cache_bytes.has_value()) return *wishes.cache_bytes / demand.slot_bytes;
  return std::nullopt;
}

std::string CgroupText(const MemoryInfo& memory) {
  return fmt::format("limit {} in {}", FormatMemory(memory.cgroup->limit_bytes),
                     memory.cgroup->limit_file);
}

std::string LimitText(const MemoryPlan& plan, const MemoryWishes& wishes,
                      const MemoryInfo& memory) {
  if (plan.num_slots >= plan.num_records) return "room for all of them";
  if (wishes.slots_per_layer.has_value()) return "as many for each layer as asked for";
  if (wishes.cache_bytes.has_value()) return "as asked for";
  std::string text = fmt::format("all memory but for a reserve of {} ({} free",
                                 FormatMemory(plan.reserve_bytes), FormatMemory(plan.free_bytes));
  // Which of the two has less to give.
  if (memory.cgroup.has_value() && plan.free_bytes < memory.available_bytes) {
    text += "; " + CgroupText(memory);
  }
  return text + ")";
}

Status DoesNotFit(const MemoryDemand& demand, BytesOf kv_bytes, const MemoryPlan& plan,
                  const MemoryInfo& memory) {
  std::string free = fmt::format("{} of {} are free", FormatMemory(plan.free_bytes),
                                 FormatMemory(memory.physical_bytes));
  if (memory.cgroup.has_value()) free += fmt::format(" ({})", CgroupText(memory));
  // What could be given, with everything else at its least.
  const uint64_t left = Less(plan.free_bytes, plan.dense_bytes + plan.working_bytes);
  const uint64_t least_cache = kLeastSlots * demand.slot_bytes;
  const uint32_t context = PositionsWithin(kv_bytes, Less(left, least_cache), demand.max_context);
  std::string advice;
  if (left < least_cache || context == 0) {
    advice = "the model needs more memory than that whatever the context and the cache";
  } else if (context < plan.context) {
    advice = fmt::format("a context of at most {} fits, with the smallest cache", context);
  } else {
    advice =
        fmt::format("with this context a cache of at most {} slots ({}) fits",
                    (left - plan.kv_bytes) / demand.slot_bytes, FormatMemory(left - plan.kv_bytes));
  }
  return Error(Code::kResourceExhausted, "this needs {} of memory ({}), but {}; {}",
               FormatMemory(plan.total_bytes()), plan.Breakdown(), free, advice);
}

}  // namespace

std::string MemoryPlan::Breakdown() const {
  return fmt::format(
      "dense weights {}, KV cache of {} positions {}, expert cache of {} slots {}, working memory "
      "of spans of {} positions {}",
      FormatMemory(dense_bytes), context, FormatMemory(kv_bytes), num_slots,
      FormatMemory(cache_bytes), prefill_span, FormatMemory(working_bytes));
}

std::string MemoryPlan::CacheChoice() const {
  const double share = num_records == 0
                           ? 100
                           : 100 * static_cast<double>(std::min(num_slots, num_records)) /
                                 static_cast<double>(num_records);
  std::string text = fmt::format("expert cache {}, {} slots for {:.1f} % of {} experts, {}",
                                 FormatMemory(cache_bytes), num_slots, share, num_records, limit);
  if (prefetch_slots > 0) text += fmt::format("; {} slots are for reading ahead", prefetch_slots);
  return text;
}

MemoryDemand DemandOf(const ModelConfig& config, uint64_t dense_bytes, uint64_t slot_bytes) {
  const ModelSizes sizes = SizesOf(config);
  return {.dense_bytes = dense_bytes,
          .max_context = config.max_position_embeddings,
          .slot_bytes = slot_bytes,
          .num_moe_layers = config.num_moe_layers(),
          .num_records = sizes.num_expert_records,
          .records_per_token = sizes.records_per_token,
          .experts_per_token = config.experts_per_token};
}

Result<MemoryPlan> PlanMemory(const MemoryDemand& demand, const MemoryNeeds& needs,
                              const MemoryWishes& wishes, const MemoryInfo& memory) {
  PICCHIO_CHECK(demand.max_context > 0 && demand.slot_bytes > 0);
  PICCHIO_CHECK(wishes.prefill_span != 0u && wishes.longest_prompt > 0);
  if (wishes.context.has_value() &&
      (*wishes.context == 0 || *wishes.context > demand.max_context)) {
    return Error(Code::kInvalidArgument, "the context is {}, expected 1 to {}, the model's longest",
                 *wishes.context, demand.max_context);
  }
  const std::optional<uint64_t> slots = SlotsAskedFor(demand, wishes);
  if (slots.has_value() && *slots < kLeastSlots) {
    return Error(Code::kInvalidArgument,
                 "the expert cache would have {} slots of {}, expected at least {}", *slots,
                 FormatMemory(demand.slot_bytes), kLeastSlots);
  }
  const uint64_t most_slots = std::max(kLeastSlots, demand.num_records);

  MemoryPlan plan{.dense_bytes = demand.dense_bytes,
                  .free_bytes = memory.FreeForUs(),
                  .num_records = demand.num_records,
                  .limit = {}};
  const uint64_t reserve = std::clamp<uint64_t>(plan.free_bytes / 20, 256_MiB, 2_GiB);
  plan.reserve_bytes = reserve;
  if (slots.has_value()) plan.num_slots = std::min(*slots, most_slots);

  const uint32_t most_span =
      std::min(wishes.longest_prompt, wishes.prefill_span.value_or(kMostSpan));
  const uint64_t least_working = needs.working_bytes(std::min(most_span, kLeastSpan));
  const uint64_t shared = Less(plan.free_bytes, demand.dense_bytes + least_working + reserve);
  if (wishes.context.has_value()) {
    plan.context = *wishes.context;
  } else if (slots.has_value()) {
    plan.context =
        DefaultContext(demand, needs.kv_bytes, Less(shared, plan.num_slots * demand.slot_bytes));
  } else {
    plan.context = DefaultContext(demand, needs.kv_bytes, shared / 2);
  }
  plan.kv_bytes = needs.kv_bytes(plan.context);

  plan.prefill_span = std::min(most_span, plan.context);
  if (!wishes.prefill_span.has_value()) {
    const uint64_t left = Less(shared, plan.kv_bytes);
    const uint64_t unused =
        Less(left, (slots.has_value() ? plan.num_slots : most_slots) * demand.slot_bytes);
    const uint64_t more = std::max(unused, slots.has_value() ? 0 : left / 4);
    plan.prefill_span =
        std::max(std::min(plan.prefill_span, kLeastSpan),
                 PositionsWithin(needs.working_bytes, least_working + more, plan.prefill_span));
  }
  plan.working_bytes = needs.working_bytes(plan.prefill_span);

  if (!slots.has_value()) {
    const uint64_t left = Less(shared + least_working, plan.kv_bytes + plan.working_bytes);
    plan.num_slots = std::clamp(left / demand.slot_bytes, kLeastSlots, most_slots);
  }
  plan.cache_bytes = plan.num_slots * demand.slot_bytes;
  plan.limit = LimitText(plan, wishes, memory);
  if (wishes.prefetch && !wishes.slots_per_layer.has_value() &&
      plan.num_slots < demand.num_records) {
    plan.prefetch_slots = ExpertCache::PrefetchSlots(plan.num_slots, demand.experts_per_token,
                                                     demand.experts_per_token);
  }
  plan.cache_below_token = plan.num_slots < demand.records_per_token;
  if (plan.total_bytes() > plan.free_bytes) return DoesNotFit(demand, needs.kv_bytes, plan, memory);
  return plan;
}

}  // namespace picchio
