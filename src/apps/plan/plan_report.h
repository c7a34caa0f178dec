// What `picchio plan` says, for people and for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/plan/plan.h"
#include "base/json.h"

namespace picchio {

// Everything that a plan rests on, beside the plan.
struct PlanContext {
  const PlannedModel& model;
  const PlanOptions& options;
  std::string memory{};   // "4.00 GiB, as told", "19.2 GiB are free here".
  std::string text{};     // "256 tokens behind a prompt of 512".
  std::string routing{};  // Where the hits come from.
  std::string storage{};  // How the rate was come by.
  std::vector<std::string> notes{};
};

std::string PlanText(const PlanContext& context, const PlanReport& report);
Json PlanJson(const PlanContext& context, const PlanReport& report);

// In sentences with figures: what limits, and what would help most.
std::string PlanVerdict(const PlanOptions& options, const PlanReport& report);

}  // namespace picchio
