#include "apps/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/human.h"

namespace picchio {
namespace {

// Of a run with that memory, which was planned with those wishes.
Result<HitRates> HitsWith(const MemoryPlan& memory, const MemoryWishes& wishes,
                          const ModelConfig& config, const AccessTrace& trace) {
  // More slots than a layer has experts would stay empty: the plan has none such.
  const uint32_t per_layer = std::min(wishes.slots_per_layer.value_or(0), config.num_experts);
  return HitsOf(trace, static_cast<size_t>(memory.num_slots), per_layer);
}

// Cases of one model and one text.
class Planner {
 public:
  Planner(const PlannedModel& model, const PlanOptions& options)
      : model_(model), options_(options) {}

  Result<PlanCase> Case(std::string what, const MemoryInfo& memory, const MemoryWishes& wishes,
                        bool int8_attention) const {
    PlanCase made{.what = std::move(what)};
    PICCHIO_ASSIGN_OR_RETURN(
        made.memory,
        PlanRun(model_.DemandFor(options_.num_threads, int8_attention), wishes, memory));
    PICCHIO_ASSIGN_OR_RETURN(made.hits,
                             HitsWith(made.memory, wishes, model_.config, options_.trace));
    Forecasts(made, options_.bytes_per_second,
              int8_attention && options_.int8_compute ? *options_.int8_compute : options_.compute);
    return made;
  }

  // The same memory and hits, read and computed on otherwise.
  PlanCase Otherwise(const PlanCase& base, std::string what, double bytes_per_second,
                     double compute_factor) const {
    PlanCase made = base;
    made.what = std::move(what);
    const ComputeTimes& compute = options_.compute;
    Forecasts(made, bytes_per_second,
              {.attention = compute_factor * compute.attention,
               .experts = compute_factor * compute.experts,
               .head = compute_factor * compute.head});
    return made;
  }

 private:
  void Forecasts(PlanCase& made, double bytes_per_second, const ComputeTimes& compute) const {
    ForecastInput input{.num_moe_layers = model_.config.num_moe_layers(),
                        .experts_per_token = model_.config.experts_per_token,
                        .read_bytes = model_.slot_bytes,
                        .hit_rate = made.hits.whole,
                        .bytes_per_second = bytes_per_second,
                        .compute = compute};
    made.text = ForecastToken(input);
    input.hit_rate = made.hits.warm;
    made.warm = ForecastToken(input);
  }

  const PlannedModel& model_;
  const PlanOptions& options_;
};

Status CheckTrace(const AccessTrace& trace, const ModelConfig& config) {
  const TraceHeader& header = trace.header;
  if (header.num_layers != config.num_hidden_layers || header.num_experts != config.num_experts ||
      header.experts_per_token != config.experts_per_token ||
      header.num_records != uint64_t{config.num_moe_layers()} * config.num_experts) {
    return Error(Code::kInvalidArgument,
                 "the trace is of a model with {} layers and {} experts, {} per layer and {} at a "
                 "time, but this one has {} and {}, {} and {}",
                 header.num_layers, header.num_records, header.num_experts,
                 header.experts_per_token, config.num_hidden_layers,
                 config.num_moe_layers() * config.num_experts, config.num_experts,
                 config.experts_per_token);
  }
  for (const AccessTrace::List& list : trace.lists) {
    if (config.layers[static_cast<size_t>(list.layer)].moe) continue;
    return Error(Code::kInvalidArgument,
                 "the trace asks layer {} for experts, but this model has none there", list.layer);
  }
  return Status::Ok();
}

}  // namespace

MemoryInfo MemoryOf(uint64_t bytes) { return {.physical_bytes = bytes, .available_bytes = bytes}; }

Result<size_t> ReadsAtOnce(const PlannedModel& model, const PlanOptions& options) {
  PICCHIO_RETURN_IF_ERROR(CheckTrace(options.trace, model.config));
  PICCHIO_ASSIGN_OR_RETURN(
      const MemoryPlan memory,
      PlanRun(model.DemandFor(options.num_threads, false), options.wishes, options.memory));
  PICCHIO_ASSIGN_OR_RETURN(const HitRates hits,
                           HitsWith(memory, options.wishes, model.config, options.trace));
  const double miss_rate = 1 - hits.whole;
  const double chosen = model.config.experts_per_token;
  // Of the layers that miss any, the mean.
  const double some = 1 - std::pow(1 - miss_rate, chosen);
  return some > 0 ? static_cast<size_t>(std::max(1L, std::lround(chosen * miss_rate / some))) : 1;
}

uint32_t MiddleOf(uint32_t prompt, size_t tokens, uint32_t context) {
  const uint64_t end = std::min<uint64_t>(uint64_t{prompt} + tokens, context);
  return static_cast<uint32_t>((std::min<uint64_t>(prompt, end - 1) + end - 1) / 2);
}

Result<PlanReport> MakePlan(const PlannedModel& model, const PlanOptions& options) {
  PICCHIO_RETURN_IF_ERROR(CheckTrace(options.trace, model.config));
  const Planner planner(model, options);
  PlanReport report;
  PICCHIO_ASSIGN_OR_RETURN(report.now,
                           planner.Case("as it is", options.memory, options.wishes, false));
  const uint64_t free = options.memory.FreeForUs();
  MemoryWishes twice = options.wishes;
  if (twice.cache_bytes) *twice.cache_bytes *= 2;
  if (twice.slots_per_layer) *twice.slots_per_layer *= 2;
  const bool cache_alone = twice.cache_bytes || twice.slots_per_layer;
  PICCHIO_ASSIGN_OR_RETURN(
      PlanCase more,
      planner.Case(cache_alone ? std::string("an expert cache twice as large")
                               : fmt::format("twice the memory ({})", FormatMemory(2 * free)),
                   MemoryOf(2 * free), twice, false));
  report.changes.push_back(std::move(more));
  report.changes.push_back(planner.Otherwise(
      report.now,
      fmt::format("a drive twice as fast ({}/s)", FormatBytes(2 * options.bytes_per_second)),
      2 * options.bytes_per_second, 1));
  if (options.int8_compute) {
    PICCHIO_ASSIGN_OR_RETURN(PlanCase int8, planner.Case("attention as INT8 (convert --dense int8)",
                                                         options.memory, options.wishes, true));
    report.changes.push_back(std::move(int8));
  }
  std::ranges::stable_sort(report.changes, std::ranges::greater(),
                           [&](const PlanCase& change) { return report.Gain(change); });
  if (options.num_threads > 1) {
    report.half_threads =
        planner.Otherwise(report.now, "half the threads", options.bytes_per_second, 2);
  }
  return report;
}

}  // namespace picchio
