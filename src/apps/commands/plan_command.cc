#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "apps/commands/command.h"
#include "apps/commands/flag_checks.h"
#include "apps/commands/print_json.h"
#include "apps/commands/resource_flags.h"
#include "apps/doctor/measure_read_rate.h"
#include "apps/interrupt.h"
#include "apps/plan/measure_compute.h"
#include "apps/plan/plan_report.h"
#include "apps/plan/routing.h"
#include "apps/synth/synth.h"
#include "base/human.h"
#include "base/thread_pool.h"

namespace picchio {
namespace {

struct PlanFlags {
  std::string model;
  double memory_gib = 0;
  ResourceFlags resources;
  int prompt = 512;
  int tokens = 256;
  double skew = 0;
  std::string trace;
  std::string path;
  double rate = 0;
  double seconds = 2;
  bool json = false;

  Flag memory_flag;
  Flag skew_flag;
  Flag rate_flag;
};

// A layer's, in seconds: no measurement gets further by waiting longer.
constexpr double kLongestPause = 0.05;

uint64_t Gibibytes(double count) { return static_cast<uint64_t>(count * 0x1p30); }

Status ChooseMemory(const PlanFlags& flags, PlanOptions& options, PlanContext& context) {
  if (flags.memory_flag.given()) {
    options.memory = MemoryOf(Gibibytes(flags.memory_gib));
    context.memory = fmt::format("{}, as told", FormatMemory(options.memory.FreeForUs()));
  } else {
    PICCHIO_ASSIGN_OR_RETURN(options.memory, ReadMemoryInfo());
    context.memory = fmt::format("{} are free here", FormatMemory(options.memory.FreeForUs()));
  }
  PICCHIO_ASSIGN_OR_RETURN(options.wishes, flags.resources.Memory());
  options.wishes.longest_prompt = static_cast<uint32_t>(flags.prompt);
  return Status::Ok();
}

Status ChooseRouting(const PlanFlags& flags, PlanOptions& options, PlanContext& context) {
  if (!flags.trace.empty()) {
    PICCHIO_ASSIGN_OR_RETURN(options.trace, LoadTrace(flags.trace));
    context.routing = fmt::format("simulated on {}", flags.trace);
    return Status::Ok();
  }
  const std::optional<double> known = context.model.skew;
  const double skew = flags.skew_flag.given() ? flags.skew : known.value_or(0);
  options.trace = MakeRouting(context.model.config, context.model.layout, skew,
                              static_cast<size_t>(flags.tokens));
  context.routing =
      fmt::format("simulated on {} tokens of skew {} from an empty cache", flags.tokens, skew);
  if (!flags.skew_flag.given() && !known) {
    context.notes.emplace_back(
        "nothing is known of which experts a text uses, so all are taken to be used evenly, which "
        "a cache profits from least: --trace of a run, or --skew 1, may say more");
  }
  return Status::Ok();
}

// Whatever a layer waits for, it computes something between.
std::chrono::nanoseconds PauseOf(const PlannedModel& model, const ComputeTimes& compute) {
  const double seconds = compute.total() / std::max(model.config.num_moe_layers(), 1u);
  return std::chrono::nanoseconds(static_cast<int64_t>(1e9 * std::min(seconds, kLongestPause)));
}

Status ChooseRate(const PlanFlags& flags, PlanOptions& options, PlanContext& context) {
  if (flags.rate_flag.given()) {
    options.bytes_per_second = 1e9 * flags.rate;
    context.storage = "as told";
    return Status::Ok();
  }
  const Path path = !flags.path.empty() ? Path(flags.path) : context.model.folder.value_or(".");
  PICCHIO_ASSIGN_OR_RETURN(const size_t at_once, ReadsAtOnce(context.model, options));
  const ReadRateOptions wanted{.seconds = flags.seconds,
                               .read_bytes = context.model.slot_bytes,
                               .burst_reads = at_once,
                               .pause = PauseOf(context.model, options.compute),
                               .stop = &InterruptFlag()};
  PICCHIO_ASSIGN_OR_RETURN(const MeasuredReadRate rate, MeasureStorageReadRate(path, wanted));
  options.bytes_per_second = rate.bytes_per_second;
  context.storage =
      fmt::format("measured on {}, {} records at once every {:.1f} ms: {}", rate.source, at_once,
                  1e-6 * static_cast<double>(wanted.pause.count()), rate.way);
  if (rate.storage_share && *rate.storage_share < 0.99) {
    context.notes.push_back(fmt::format(
        "only {:.0f} % of the bytes came from the drive: its rate may be lower; --rate tells it",
        100 * *rate.storage_share));
  }
  if (rate.temporary) {
    context.notes.emplace_back(
        "the rate is that of a file just written, which a drive may have in a cache of its own");
  }
  return Status::Ok();
}

Status ChooseCompute(const PlanFlags& flags, PlanOptions& options, const PlannedModel& model) {
  ComputeOptions wanted{.num_threads = options.num_threads,
                        .position = options.position,
                        .seconds = flags.seconds / 2};
  PICCHIO_ASSIGN_OR_RETURN(options.compute, MeasureCompute(model, wanted, InterruptFlag()));
  if (model.types.int8_attention) return Status::Ok();
  wanted.int8_attention = true;
  PICCHIO_ASSIGN_OR_RETURN(options.int8_compute, MeasureCompute(model, wanted, InterruptFlag()));
  return Status::Ok();
}

Status Run(const PlanFlags& flags) {
  PICCHIO_ASSIGN_OR_RETURN(const PlannedModel model, FindPlannedModel(flags.model));
  PlanOptions options;
  PICCHIO_ASSIGN_OR_RETURN(const int threads, flags.resources.Threads());
  options.num_threads = threads > 0 ? threads : UsableCpus();
  PlanContext context{.model = model, .options = options};
  PICCHIO_RETURN_IF_ERROR(ChooseMemory(flags, options, context));
  PICCHIO_RETURN_IF_ERROR(ChooseRouting(flags, options, context));
  // What does not fit is better known before anything is measured.
  PICCHIO_ASSIGN_OR_RETURN(
      const MemoryPlan memory,
      PlanRun(model.DemandFor(options.num_threads, false), options.wishes, options.memory));
  const size_t tokens = TokensOf(options.trace);
  options.position = MiddleOf(options.wishes.longest_prompt, tokens, memory.context);
  context.text = fmt::format("{} tokens behind a prompt of {}", tokens, flags.prompt);
  PICCHIO_RETURN_IF_ERROR(ChooseCompute(flags, options, model));
  PICCHIO_RETURN_IF_ERROR(ChooseRate(flags, options, context));
  PICCHIO_ASSIGN_OR_RETURN(const PlanReport report, MakePlan(model, options));
  if (flags.json) {
    PrintJson(PlanJson(context, report));
  } else {
    std::fputs(PlanText(context, report).c_str(), stdout);
  }
  return Status::Ok();
}

}  // namespace

void AddPlanCommand(Command& commands) {
  auto flags = std::make_shared<PlanFlags>();
  Command command = commands.Sub(
      "plan", "Tell how fast a model will run here, before it is downloaded, and what would help");
  command
      .Option("MODEL", flags->model, "Folder of a model, or the name of a shape of picchio synth")
      .Required()
      .Check(NotEmpty());
  flags->memory_flag = command
                           .Option("--memory", flags->memory_gib,
                                   "Memory for the run in GiB (default: what is free)")
                           .Check(NumberFrom(1e-3, 1e6));
  flags->resources.AddTo(command);
  command.Option("--prompt", flags->prompt, "Tokens of the prompt that the text comes after")
      .Check(WholeNumberFrom(1, 1 << 26))
      .ShowDefault();
  Flag trace = command
                   .Option("--trace", flags->trace,
                           "Which experts a text uses: what run --trace wrote of this model")
                   .Check(NotEmpty());
  flags->skew_flag =
      command
          .Option("--skew", flags->skew,
                  "Or how unevenly experts are used: 0 evenly, 1 as Zipf's law (default: the "
                  "synthetic model's own, else 0)")
          .Check(NumberFrom(0, kMaxSkew))
          .Excludes(trace);
  command.Option("-n,--predict", flags->tokens, "Tokens of the text, without a trace")
      .Check(WholeNumberFrom(2, 4096))
      .ShowDefault()
      .Excludes(trace);
  Flag path = command
                  .Option("--path", flags->path,
                          "Where the model will lie, for measuring how fast that reads (default: "
                          "its folder, or this one)")
                  .Check(NotEmpty());
  flags->rate_flag =
      command.Option("--rate", flags->rate, "That rate in GB/s, instead of a measurement")
          .Check(NumberFrom(1e-6, 1e6))
          .Excludes(path);
  command.Option("--seconds", flags->seconds, "How long storage is measured, and computing")
      .Check(NumberFrom(0.01, 3600))
      .ShowDefault();
  command.Switch("--json", flags->json, "Report as JSON");
  command.Footer(
      "Storage is measured with reads as a layer's will be, where nothing large lies with a "
      "temporary file\n"
      "of up to 1 GiB; computing with two layers of the shape and noise in them; hits are "
      "simulated.\n"
      "Memory is divided as picchio run will divide it. Let the machine rest meanwhile.\n\n"
      "Examples:\n"
      "  picchio plan qwen3-30b-a3b --memory 8\n"
      "  picchio plan gpt-oss-120b --skew 0.8 --path /mnt/fast --memory 16\n"
      "  picchio plan ~/models/qwen3-30b --trace tale.trace --json");
  command.Run([flags] { return Run(*flags); });
}

}  // namespace picchio
