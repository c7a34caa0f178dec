#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "apps/commands/command.h"
#include "apps/commands/engine_flags.h"
#include "apps/commands/print_json.h"
#include "apps/interrupt.h"
#include "apps/progress.h"
#include "apps/run/engine.h"
#include "apps/run/prompt.h"
#include "apps/run/run_report.h"
#include "base/json.h"
#include "engine/perplexity.h"

namespace picchio {
namespace {

struct PerplexityFlags {
  EngineFlags engine;
  std::string file;
  bool ids = false;
  bool json = false;
};

Status Run(const PerplexityFlags& flags) {
  PICCHIO_ASSIGN_OR_RETURN(const EngineOptions options, flags.engine.Options());
  PICCHIO_ASSIGN_OR_RETURN(std::unique_ptr<EngineSetup> setup,
                           EngineSetup::Open(flags.engine.model, options));
  PromptSource source;
  (flags.ids ? source.ids_file : source.text_file) = flags.file;
  PICCHIO_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ReadPrompt(source, setup->tokenizer()));
  PICCHIO_ASSIGN_OR_RETURN(const MemoryPlan plan, setup->Plan(static_cast<uint32_t>(ids.size())));
  PICCHIO_RETURN_IF_ERROR(CheckScorable(ids, setup->config().vocab_size, plan.context));
  PICCHIO_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                           Engine::Load(std::move(setup), plan));
  PICCHIO_ASSIGN_OR_RETURN(Session session, engine->NewSession());

  PrintNotes(*engine, !flags.json);

  RunHooks hooks;
  hooks.cancel = &InterruptFlag();
  // Windows overlap: there are more positions to run than ids.
  std::optional<Progress> progress;
  hooks.on_progress = [&](const PromptProgress& at) {
    if (!progress.has_value()) progress.emplace("scoring", at.positions_total, "positions");
    progress->SetAside(PreloadText(engine->experts()));
    progress->SetDone(
        static_cast<uint64_t>(at.fraction() * static_cast<double>(at.positions_total)));
  };
  PICCHIO_ASSIGN_OR_RETURN(const Perplexity result, MeasurePerplexity(session, ids, hooks));
  if (options.warm_start) SaveUseCounters(*engine);
  PICCHIO_RETURN_IF_ERROR(engine->FinishTrace());
  if (flags.json) {
    const Json json{{"perplexity", result.value()},
                    {"nats_per_token", result.nats_per_token},
                    {"tokens", result.num_tokens},
                    {"context", session.context()},
                    {"stats", PhaseJson(result.stats)}};
    PrintJson(json);
    return Status::Ok();
  }
  PrintLateNotes(*engine);
  std::printf("perplexity %.4f (%.5f nats per token, %llu tokens, windows of %u positions)\n",
              result.value(), result.nats_per_token,
              static_cast<unsigned long long>(result.num_tokens), session.context());
  return Status::Ok();
}

}  // namespace

void AddPerplexityCommand(Command& commands) {
  auto flags = std::make_shared<PerplexityFlags>();
  Command command = commands.Sub("perplexity", "Measure how well a model predicts a text");
  flags->engine.AddTo(command);
  command.Option("FILE", flags->file, "The text").Required().Check(NotEmpty());
  command.Switch("--ids", flags->ids, "FILE holds token ids");
  command.Switch("--json", flags->json, "Report as JSON");
  command.Footer(
      "Each token but the first is scored once, in windows of the context that begin half a "
      "context\n"
      "apart.\n\n"
      "Example:\n"
      "  picchio perplexity ~/models/qwen3-30b wiki.txt -c 2048");
  command.Run([flags] { return Run(*flags); });
}

}  // namespace picchio
