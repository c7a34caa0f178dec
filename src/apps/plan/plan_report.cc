#include "apps/plan/plan_report.h"

#include <utility>

#include "apps/bench/text_table.h"
#include "base/human.h"
#include "model/model_sizes.h"

namespace picchio {
namespace {

// Less is not worth its name.
constexpr double kWorthIt = 1.05;

std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string Rate(const Forecast& forecast) {
  const double rate = forecast.tokens_per_second();
  return fmt::format("{:.{}f}", rate, rate >= 100 ? 0 : rate >= 10 ? 1 : 2);
}
std::string Milliseconds(double seconds) { return fmt::format("{:.1f} ms", 1e3 * seconds); }

std::string KindText(const PlannedModel& model) {
  const char* experts = model.layout.kind == PayloadKind::kInt4    ? "INT4"
                        : model.layout.kind == PayloadKind::kMxfp4 ? "MXFP4"
                                                                   : "BF16";
  return fmt::format("{} layers of {} experts, {} at a time; experts {}, attention {}, head {}",
                     model.config.num_hidden_layers, model.config.num_experts,
                     model.config.experts_per_token, experts,
                     model.types.int8_attention ? "INT8" : "BF16",
                     model.types.int8_head ? "INT8" : "BF16");
}

double HeldShare(const PlannedModel& model, const PlanCase& plan) {
  return static_cast<double>(plan.memory.num_slots) /
         static_cast<double>(SizesOf(model.config).num_expert_records);
}

std::string CasesTable(const PlannedModel& model, const PlanReport& report) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const PlanCase& plan) {
    rows.push_back({plan.what, Rate(plan.text), fmt::format("{:.2f}", report.Gain(plan)),
                    Percent(HeldShare(model, plan)), Percent(plan.hits.whole),
                    FormatBytes(plan.text.bytes), Percent(plan.text.wait_share())});
  };
  add(report.now);
  for (const PlanCase& change : report.changes) add(change);
  if (report.half_threads) add(*report.half_threads);
  return TextTable({"", "tok/s", "times", "experts held", "hits", "read a token", "waiting"}, rows);
}

Json ForecastJson(const Forecast& forecast) {
  return {{"tokens_per_second", forecast.tokens_per_second()},
          {"seconds", forecast.seconds},
          {"storage_wait_seconds", forecast.wait},
          {"storage_share", forecast.wait_share()},
          {"read_bytes", forecast.bytes}};
}

Json CaseJson(const PlanReport& report, const PlanCase& plan) {
  return {{"what", plan.what},
          {"slots", plan.memory.num_slots},
          {"hit_rate", plan.hits.whole},
          {"warm_hit_rate", plan.hits.warm},
          {"token", ForecastJson(plan.text)},
          {"warm_token", ForecastJson(plan.warm)},
          {"times", report.Gain(plan)}};
}

}  // namespace

std::string PlanVerdict(const PlanOptions& options, const PlanReport& report) {
  const Forecast& now = report.now.text;
  std::string text = fmt::format(
      "{} tok/s, {} once the cache is warm: {} of a token's time is waiting for storage, {} "
      "computing.",
      Rate(now), Rate(report.now.warm), Percent(now.wait_share()), Percent(1 - now.wait_share()));
  const PlanCase& best = report.changes.front();
  if (report.Gain(best) < kWorthIt) {
    text += " Neither more memory nor a faster drive would help much: computing is the limit.";
  } else {
    text += fmt::format(" Most would help {}: {} tok/s, {:.2f} times as fast", best.what,
                        Rate(best.text), report.Gain(best));
    for (size_t i = 1; i < report.changes.size(); ++i) {
      const PlanCase& next = report.changes[i];
      if (report.Gain(next) < kWorthIt) continue;
      text += fmt::format("; then {}: {}", next.what, Rate(next.text));
    }
    text += ".";
  }
  if (report.half_threads && report.Gain(*report.half_threads) > 1 / kWorthIt) {
    text += fmt::format(" Threads mostly wait: half of the {} would do, at {} tok/s.",
                        options.num_threads, Rate(report.half_threads->text));
  }
  return text;
}

std::string PlanText(const PlanContext& context, const PlanReport& report) {
  const PlannedModel& model = context.model;
  const MemoryPlan& memory = report.now.memory;
  const ComputeTimes& compute = context.options.compute;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"model", model.name},
      {"", KindText(model)},
      {"memory", context.memory},
      {"resident", fmt::format("{}: {}", FormatMemory(memory.total_bytes()), memory.Breakdown())},
      {"expert cache", fmt::format("{} of {} experts ({})", memory.num_slots,
                                   SizesOf(model.config).num_expert_records,
                                   Percent(HeldShare(model, report.now)))},
      {"text", fmt::format("{}; attention as in their middle, position {} of the context: it takes "
                           "longer further on",
                           context.text, context.options.position)},
      {"hits", fmt::format("{} of a token's {} experts, {} once warm; {}",
                           Percent(report.now.hits.whole), SizesOf(model.config).records_per_token,
                           Percent(report.now.hits.warm), context.routing)},
      {"read", fmt::format("{} a token, {} once warm", FormatBytes(report.now.text.bytes),
                           FormatBytes(report.now.warm.bytes))},
      {"storage",
       fmt::format("{}/s, {}", FormatBytes(context.options.bytes_per_second), context.storage)},
      {"compute", fmt::format("{} a token by {} threads: attention {}, experts {}, head {}",
                              Milliseconds(compute.total()), context.options.num_threads,
                              Milliseconds(compute.attention), Milliseconds(compute.experts),
                              Milliseconds(compute.head))}};
  std::string text;
  for (const auto& [name, value] : facts) text += fmt::format("{:<13} {}\n", name, value);
  text += "\n" + CasesTable(model, report) + "\n" + PlanVerdict(context.options, report) + "\n";
  for (const std::string& note : context.notes) text += fmt::format("note: {}\n", note);
  return text;
}

Json PlanJson(const PlanContext& context, const PlanReport& report) {
  const PlannedModel& model = context.model;
  const MemoryPlan& memory = report.now.memory;
  const ComputeTimes& compute = context.options.compute;
  Json changes = Json::array();
  for (const PlanCase& change : report.changes) changes.push_back(CaseJson(report, change));
  return {{"model", model.name},
          {"layers", model.config.num_hidden_layers},
          {"experts", SizesOf(model.config).num_expert_records},
          {"records_per_token", SizesOf(model.config).records_per_token},
          {"record_bytes", model.slot_bytes},
          {"threads", context.options.num_threads},
          {"text", context.text},
          {"position", context.options.position},
          {"memory",
           {{"given", context.memory},
            {"free_bytes", memory.free_bytes},
            {"total_bytes", memory.total_bytes()},
            {"context", memory.context},
            {"prefill_span", memory.prefill_span},
            {"slots", memory.num_slots},
            {"dense_bytes", memory.dense_bytes},
            {"working_bytes", memory.working_bytes},
            {"kv_bytes", memory.kv_bytes},
            {"cache_bytes", memory.cache_bytes}}},
          {"routing", context.routing},
          {"storage",
           {{"bytes_per_second", context.options.bytes_per_second}, {"from", context.storage}}},
          {"compute",
           {{"attention_seconds", compute.attention},
            {"experts_seconds", compute.experts},
            {"head_seconds", compute.head}}},
          {"prediction", CaseJson(report, report.now)},
          {"changes", std::move(changes)},
          {"half_threads",
           report.half_threads ? CaseJson(report, *report.half_threads) : Json(nullptr)},
          {"verdict", PlanVerdict(context.options, report)},
          {"notes", context.notes}};
}

}  // namespace picchio
