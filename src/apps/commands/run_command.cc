#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/commands/command.h"
#include "apps/commands/engine_flags.h"
#include "apps/commands/flag_checks.h"
#include "apps/commands/print_json.h"
#include "apps/interrupt.h"
#include "apps/progress.h"
#include "apps/run/engine.h"
#include "apps/run/prompt.h"
#include "apps/run/run_report.h"
#include "apps/standard_output.h"
#include "base/atomic_file.h"
#include "base/json.h"
#include "base/printable.h"
#include "format/npy.h"

namespace picchio {
namespace {

struct RunFlags {
  EngineFlags engine;
  PromptSource prompt;
  std::string prompt_text;
  int64_t max_tokens = -1;
  bool ignore_eos = false;
  SamplingParams sampling;
  std::string seed = "0";
  std::vector<std::string> logit_bias;
  std::vector<std::string> stop;
  bool json = false;
  bool stats = false;
  std::string logits_out;
  std::string ids_out;
  // Which sampling flags were given: the others take the model's own values.
  Flag temperature;
  Flag top_k;
  Flag top_p;
  Flag min_p;
  Flag repeat_penalty;
};

// "ID:BIAS", "ID+BIAS" or "ID-BIAS", as "15043+1.5" or "151645:-inf".
Result<LogitBias> ParseBias(const std::string& text) {
  char* end = nullptr;
  const long id = std::strtol(text.c_str(), &end, 10);
  const char* number = end;
  if (*number == ':') ++number;
  char* rest = nullptr;
  const float bias = std::strtof(number, &rest);
  if (end == text.c_str() || rest == number || *rest != '\0' || id < 0 || id > INT32_MAX ||
      !(bias < INFINITY)) {
    return Error(Code::kInvalidArgument, "{} is not a token id and what to add, as 15043:-1.5",
                 Quoted(text));
  }
  return LogitBias{static_cast<int32_t>(id), bias};
}

Result<uint64_t> RandomSeed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
    return ErrnoError(errno, "--seed -1: the system has no random number");
  }
  return seed;
}

// The file that a name leads to, whatever its spelling: links and dots resolved.
Path Resolved(const std::string& name) {
  std::error_code error;
  const Path absolute = std::filesystem::absolute(name, error);
  // A link to a file that is not there yet is followed too.
  const Result<Path> target = FollowLinks(absolute);
  Path resolved = std::filesystem::weakly_canonical(target ? *target : absolute, error);
  return error ? absolute.lexically_normal() : resolved;
}

Status CheckOutputs(const RunFlags& flags) {
  const std::array<std::pair<const char*, std::string>, 3> outputs = {
      {{"--logits-out", flags.logits_out},
       {"--ids-out", flags.ids_out},
       {"--trace", flags.engine.trace}}};
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (size_t j = i + 1; j < outputs.size(); ++j) {
      const auto& [flag, name] = outputs[i];
      const auto& [other_flag, other] = outputs[j];
      if (name.empty() || other.empty() || Resolved(name) != Resolved(other)) continue;
      return Error(Code::kInvalidArgument, "{} {} and {} {} are the same file: give them two names",
                   flag, Quoted(name), other_flag, Quoted(other));
    }
  }
  return Status::Ok();
}

// A flag beats the model's generation_config.json, which beats the neutral value. A model that says
// do_sample: false is run greedily.
Result<SamplingParams> SamplingOf(const RunFlags& flags, const GenerationConfig& model) {
  SamplingParams params = flags.sampling;
  const bool greedy = model.do_sample.has_value() && !*model.do_sample;
  if (!flags.temperature.given()) {
    params.temperature = greedy ? 0 : model.temperature.value_or(params.temperature);
  }
  if (!flags.top_k.given()) params.top_k = model.top_k.value_or(0);
  if (!flags.top_p.given()) params.top_p = model.top_p.value_or(params.top_p);
  if (!flags.min_p.given()) params.min_p = model.min_p.value_or(params.min_p);
  if (!flags.repeat_penalty.given()) {
    params.repeat_penalty = model.repetition_penalty.value_or(params.repeat_penalty);
  }
  if (flags.seed == "-1") {
    PICCHIO_ASSIGN_OR_RETURN(params.seed, RandomSeed());
    std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(params.seed));
  } else {
    params.seed = std::strtoull(flags.seed.c_str(), nullptr, 10);
  }
  for (const std::string& text : flags.logit_bias) {
    PICCHIO_ASSIGN_OR_RETURN(const LogitBias bias, ParseBias(text));
    params.logit_bias.push_back(bias);
  }
  return params;
}

std::string IdsText(std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids) text += fmt::format("{}\n", id);
  return text;
}

Status Run(const RunFlags& flags) {
  PICCHIO_RETURN_IF_ERROR(CheckOutputs(flags));
  PICCHIO_ASSIGN_OR_RETURN(const EngineOptions options, flags.engine.Options());
  PICCHIO_ASSIGN_OR_RETURN(std::unique_ptr<EngineSetup> setup,
                           EngineSetup::Open(flags.engine.model, options));
  const Tokenizer* tokenizer = setup->tokenizer();
  PICCHIO_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, ReadPrompt(flags.prompt, tokenizer));

  GenerationOptions wanted;
  PICCHIO_ASSIGN_OR_RETURN(wanted.sampling, SamplingOf(flags, setup->folder().generation));
  if (flags.max_tokens >= 0) wanted.max_tokens = static_cast<uint64_t>(flags.max_tokens);
  if (!flags.ignore_eos) wanted.stop_ids = StopIds(setup->config(), setup->folder().generation);
  wanted.stop_strings = flags.stop;
  const size_t prompt_tokens = prompt.size();
  PICCHIO_ASSIGN_OR_RETURN(const MemoryPlan plan,
                           setup->Plan(static_cast<uint32_t>(prompt_tokens)));
  PICCHIO_ASSIGN_OR_RETURN(Generation generation,
                           Generation::Create(std::move(prompt), wanted,
                                              static_cast<int32_t>(setup->config().vocab_size),
                                              plan.context, tokenizer));
  // What is wrong with the prompt has been said; from here on it takes time.
  PICCHIO_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                           Engine::Load(std::move(setup), plan));
  PICCHIO_ASSIGN_OR_RETURN(Session session, engine->NewSession());
  PrintNotes(*engine, !flags.json);

  RunHooks hooks;
  // From here on Ctrl-C ends the text where it is; before, it ends the process.
  hooks.cancel = &InterruptFlag();
  std::optional<Progress> progress(std::in_place, "reading the prompt", prompt_tokens, "positions");
  hooks.on_progress = [&](const PromptProgress& at) {
    if (!progress.has_value()) return;
    progress->SetAside(PreloadText(engine->experts()));
    progress->SetDone(
        static_cast<uint64_t>(at.fraction() * static_cast<double>(at.positions_total)));
    // Off the line before the text begins.
    if (at.positions_done == at.positions_total) progress.reset();
  };
  std::string text;
  hooks.on_text = [&](std::string_view piece) -> Status {
    if (!flags.json) return WriteStandardOutput(piece);
    text += piece;
    return Status::Ok();
  };
  // Opened before the work: what cannot be written is better known now.
  std::optional<AtomicFile> ids_file;
  if (!flags.ids_out.empty()) {
    PICCHIO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(flags.ids_out));
    ids_file.emplace(std::move(file));
  }
  std::optional<NpyRowWriter> logits;
  if (!flags.logits_out.empty()) {
    PICCHIO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(flags.logits_out));
    logits.emplace(std::move(file), std::vector<uint64_t>{engine->config().vocab_size});
    hooks.on_logits = [&](uint32_t, std::span<const float> row) { return logits->Append(row); };
  }

  PICCHIO_ASSIGN_OR_RETURN(const RunStats stats, session.Generate(generation, hooks));
  if (options.warm_start) SaveUseCounters(*engine);
  // A trace is of what has run, so it is whole even where the run was stopped.
  PICCHIO_RETURN_IF_ERROR(engine->FinishTrace());
  // Stopped early, the files would look whole and not be.
  const bool cancelled = generation.reason() == FinishReason::kCancelled;
  if (logits.has_value() && !cancelled) PICCHIO_RETURN_IF_ERROR(logits->Finish());
  if (ids_file.has_value() && !cancelled) {
    const std::string text_of_ids = IdsText(generation.generated());
    PICCHIO_RETURN_IF_ERROR(ids_file->file().WriteAt(0, std::as_bytes(std::span(text_of_ids))));
    PICCHIO_RETURN_IF_ERROR(ids_file->Commit());
  }
  if (flags.json) {
    Json json{
        {"text", text},
        {"prompt_tokens", prompt_tokens},
        {"ids", std::vector<int32_t>(generation.generated().begin(), generation.generated().end())},
        {"seed", wanted.sampling.seed},
        {"finish_reason", FinishReasonName(generation.reason())},
        {"stats", StatsJson(stats, *engine)}};
    PrintJson(json);
  } else if (tokenizer != nullptr) {
    std::printf("\n");
  } else {
    std::fputs(IdsText(generation.generated()).c_str(), stdout);
  }
  std::fflush(stdout);
  if (!flags.json) PrintLateNotes(*engine);
  if (flags.stats && !flags.json) std::fputs(StatsTable(stats, *engine).c_str(), stderr);
  if (cancelled && (logits.has_value() || ids_file.has_value())) {
    return Status(Code::kCancelled, "stopped: --logits-out and --ids-out were not written");
  }
  return Status::Ok();
}

}  // namespace

void AddRunCommand(Command& commands) {
  auto flags = std::make_shared<RunFlags>();
  Command command = commands.Sub("run", "Generate text from a prompt");
  flags->engine.AddTo(command);
  Flag text = command.Option("-p,--prompt", flags->prompt_text, "The prompt");
  Flag file =
      command.Option("-f,--prompt-file", flags->prompt.text_file, "File that holds the prompt")
          .Excludes(text)
          .Check(NotEmpty());
  command.Option("--ids", flags->prompt.ids_file, "File that holds the prompt as token ids")
      .Excludes(text)
      .Excludes(file)
      .Check(NotEmpty());
  command
      .Option("-n,--predict", flags->max_tokens,
              "Tokens to generate (default, or -1: until the model ends or the context is "
              "full)")
      .Check(WholeNumberFrom(-1, int64_t{1} << 40));
  command.Switch("--ignore-eos", flags->ignore_eos, "Go on when the model ends its text");
  SamplingParams& sampling = flags->sampling;
  flags->temperature =
      command.Option("--temp", sampling.temperature, "Temperature; 0 takes the likeliest token")
          .Check(NumberFrom(0, 1e6));
  flags->top_k = command.Option("--top-k", sampling.top_k, "Only the K likeliest; 0: all")
                     .Check(WholeNumberFrom(0, int64_t{1} << 40));
  flags->top_p =
      command.Option("--top-p", sampling.top_p, "Only the likeliest that make up this much")
          .Check(NumberFrom(0, 1));
  flags->min_p = command
                     .Option("--min-p", sampling.min_p,
                             "Only those at least this likely, relative to the likeliest")
                     .Check(NumberFrom(0, 1));
  flags->repeat_penalty = command
                              .Option("--repeat-penalty", sampling.repeat_penalty,
                                      "Divide the logits of tokens seen before; 1: off")
                              .Check(NumberFrom(0.01, 100));
  command.Option("--logit-bias", flags->logit_bias, "ID:BIAS, added to a token's logit")
      .Check([](const std::string& word) {
        const Result<LogitBias> bias = ParseBias(word);
        return bias ? std::string() : bias.error().message();
      })

      .OneValueEach();
  command
      .Option("-s,--seed", flags->seed,
              "The same seed gives the same text; -1 chooses one and says which")
      .Check(Seed())
      .ShowDefault();
  command
      .Option("--stop", flags->stop, "End before this text; may be given several times")

      .OneValueEach();
  command.Switch("--json", flags->json, "Report as JSON, text included");
  command.Switch("--stats", flags->stats, "Say where time and bytes went");
  command
      .Option("--logits-out", flags->logits_out,
              "Write the logits behind every position to this .npy file")
      .Check(NotEmpty());
  command.Option("--ids-out", flags->ids_out, "Write the generated ids to this file")
      .Check(NotEmpty());
  command.Footer(
      "Without -p, -f and --ids the prompt is read from standard input. Sampling flags that are "
      "not\n"
      "given take the values that the model's generation_config.json recommends. Ctrl-C ends the "
      "text\n"
      "where it is.\n\n"
      "Examples:\n"
      "  picchio run ~/models/qwen3-30b -p \"Once upon a time\" -n 200\n"
      "  picchio run ~/models/qwen3-30b -f prompt.txt --temp 0 --stats\n"
      "  picchio run ~/models/gpt-oss-20b --cache-gb 8 --stop $'\\n\\n' < prompt.txt");
  command.Run([flags, text] {
    if (text.given()) flags->prompt.text = flags->prompt_text;
    return Run(*flags);
  });
}

}  // namespace picchio
