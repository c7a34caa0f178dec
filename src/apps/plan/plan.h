// `picchio plan`: how fast a model will run here, before it is downloaded, and what would help.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/plan/forecast.h"
#include "apps/plan/planned_model.h"
#include "apps/plan/routing.h"
#include "base/memory_info.h"
#include "base/status.h"
#include "engine/memory_plan.h"

namespace picchio {

struct PlanOptions {
  MemoryInfo memory{};  // What there is, or is to be.
  MemoryWishes wishes{};
  int num_threads = 1;
  // Where in the context the text is on average: `compute` was measured there.
  uint32_t position = 0;
  AccessTrace trace{};  // Which experts the text asks for: a recorded one's, or MakeRouting's.
  // Measured, or told.
  double bytes_per_second = 0;
  ComputeTimes compute{};
  std::optional<ComputeTimes> int8_compute{};  // With attention matrices as INT8, if that is new.
};

// What comes of one set of circumstances.
struct PlanCase {
  std::string what{};
  MemoryPlan memory{};
  HitRates hits{};
  Forecast text{};  // The mean of a text that begins with an empty expert cache.
  Forecast warm{};  // Of its second half.
};

struct PlanReport {
  PlanCase now{};
  // Each changes one thing; the one that helps most comes first.
  std::vector<PlanCase> changes{};
  std::optional<PlanCase> half_threads{};  // What they cost, where there are two or more.

  double Gain(const PlanCase& change) const {
    return change.text.tokens_per_second() / now.text.tokens_per_second();
  }
};

// The memory of a machine that has so much of it free.
MemoryInfo MemoryOf(uint64_t bytes);

// Experts that a layer that reads at all reads at once, as far as memory and text say; at least 1.
// Fails as MakePlan does.
Result<size_t> ReadsAtOnce(const PlannedModel& model, const PlanOptions& options);

// The middle of a text of so many tokens behind a prompt of so many, as far as a context goes.
uint32_t MiddleOf(uint32_t prompt, size_t tokens, uint32_t context);

// Fails as PlanRun does where the memory is too little, and with kInvalidArgument where the trace
// is another model's, or holds no token but a prompt's.
Result<PlanReport> MakePlan(const PlannedModel& model, const PlanOptions& options);

}  // namespace picchio
