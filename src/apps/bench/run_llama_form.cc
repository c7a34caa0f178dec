#include "apps/bench/run_llama_form.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <random>
#include <utility>

#include "apps/doctor/machine_facts.h"
#include "apps/progress.h"
#include "base/json.h"
#include "model/model_sizes.h"

namespace picchio {
namespace {

// Hot enough that every token is as likely as any other: the text is as random as the prompt.
constexpr double kAnyToken = 1e6;

struct MeanAndDeviation {
  double mean = 0;
  double deviation = 0;  // Of the sample: n - 1.
};

MeanAndDeviation Summary(const std::vector<double>& values) {
  MeanAndDeviation summary;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) summary.mean += value / count;
  if (values.size() < 2) return summary;
  double squares = 0;
  for (const double value : values) squares += (value - summary.mean) * (value - summary.mean);
  summary.deviation = std::sqrt(squares / (count - 1));
  return summary;
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text, length};
}

uint64_t BytesOf(const ModelFolder& folder) {
  uint64_t bytes = 0;
  for (const ManifestTensor& tensor : folder.manifest.tensors) {
    uint64_t of_tensor = DtypeBytes(tensor.dtype);
    for (const uint64_t size : tensor.shape) of_tensor *= size;
    bytes += of_tensor;
  }
  return bytes;
}

std::vector<int32_t> RandomTokens(size_t count, uint32_t vocab_size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocab_size);
  return tokens;
}

// One test once, in a context of its own; returns how long it took.
Result<std::chrono::nanoseconds> Time(Engine& engine, uint32_t prompt_tokens, uint32_t text_tokens,
                                      uint64_t seed, const std::atomic<bool>& stop) {
  PICCHIO_ASSIGN_OR_RETURN(Session session, engine.NewSession());
  const uint32_t vocab_size = engine.config().vocab_size;
  GenerationOptions options{.max_tokens = text_tokens};
  options.sampling.temperature = kAnyToken;
  options.sampling.seed = seed;
  // A text's first token has to follow something: that one's step is of the text's.
  PICCHIO_ASSIGN_OR_RETURN(
      Generation generation,
      Generation::Create(RandomTokens(std::max(prompt_tokens, 1u), vocab_size, seed), options,
                         static_cast<int32_t>(vocab_size), engine.memory().context, nullptr));
  RunHooks hooks;
  hooks.cancel = &stop;
  PICCHIO_ASSIGN_OR_RETURN(const RunStats stats, session.Generate(generation, hooks));
  if (stop.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "stopped");
  return stats.prompt.duration + stats.decode.duration;
}

using Fields = std::vector<std::pair<std::string, Json>>;

Fields FieldsOf(const LlamaBenchRun& run, const LlamaBenchTest& test, bool samples) {
  std::vector<double> ns;
  std::vector<double> rates;
  for (const uint64_t sample : test.samples_ns) {
    ns.push_back(static_cast<double>(sample));
    rates.push_back(1e9 * (test.prompt_tokens + test.text_tokens) /
                    static_cast<double>(std::max<uint64_t>(sample, 1)));
  }
  const MeanAndDeviation time = Summary(ns);
  const MeanAndDeviation rate = Summary(rates);
  Fields fields = {{"build_commit", "unknown"},
                   {"cpu_info", CpuModel()},
                   {"backends", "picchio"},
                   {"model_filename", run.model},
                   {"model_type", run.model_type},
                   {"model_size", run.model_bytes},
                   {"model_n_params", run.num_parameters},
                   {"n_batch", run.span},
                   {"n_ubatch", run.span},
                   {"n_threads", run.num_threads},
                   {"n_prompt", test.prompt_tokens},
                   {"n_gen", test.text_tokens},
                   {"n_depth", 0},
                   {"test_time", test.time},
                   {"avg_ns", std::llround(time.mean)},
                   {"stddev_ns", std::llround(time.deviation)},
                   {"avg_ts", rate.mean},
                   {"stddev_ts", rate.deviation}};
  if (samples) {
    fields.emplace_back("samples_ns", test.samples_ns);
    fields.emplace_back("samples_ts", rates);
  }
  return fields;
}

// nlohmann's own objects sort their keys: here they stay in llama-bench's order.
std::string ObjectText(const Fields& fields) {
  std::string text;
  for (const auto& [name, value] : fields) {
    text += fmt::format("{}\"{}\": {}", text.empty() ? "{" : ", ", name,
                        value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return text + "}";
}

std::string CsvText(const Fields& fields, bool head) {
  std::string text;
  for (const auto& [name, value] : fields) {
    std::string cell = head ? name : value.is_string() ? value.get<std::string>() : value.dump();
    for (size_t at = 0; !head && (at = cell.find('"', at)) != std::string::npos; at += 2) {
      cell.insert(at, 1, '"');
    }
    text += fmt::format("{}{}", text.empty() ? "" : ",", head ? cell : "\"" + cell + "\"");
  }
  return text + "\n";
}

std::string MdText(const std::vector<LlamaBenchRun>& runs) {
  std::string text =
      "| model | size | params | backend | threads | test | t/s |\n"
      "| --- | ---: | ---: | --- | ---: | ---: | ---: |\n";
  for (const LlamaBenchRun& run : runs) {
    for (const LlamaBenchTest& test : run.tests) {
      const Fields fields = FieldsOf(run, test, false);
      text +=
          fmt::format("| {} | {:.2f} GiB | {:.2f} B | picchio | {} | {} | {:.2f} ± {:.2f} |\n",
                      run.model_type, static_cast<double>(run.model_bytes) * 0x1p-30,
                      1e-9 * static_cast<double>(run.num_parameters), run.num_threads, test.Name(),
                      fields[16].second.get<double>(), fields[17].second.get<double>());
    }
  }
  return text;
}

}  // namespace

std::string LlamaBenchTest::Name() const {
  return prompt_tokens > 0 ? fmt::format("pp{}", prompt_tokens) : fmt::format("tg{}", text_tokens);
}

Result<LlamaBenchRun> RunLlamaBench(const Path& model, EngineOptions options,
                                    const LlamaBenchOptions& wanted,
                                    const std::atomic<bool>& stop) {
  LlamaBenchRun run{.model = PathText(model)};
  uint32_t longest_prompt = 1;
  uint32_t context = 0;
  for (const uint32_t prompt : wanted.prompts) {
    if (prompt == 0) continue;
    run.tests.push_back({.prompt_tokens = prompt});
    longest_prompt = std::max(longest_prompt, prompt);
    context = std::max(context, prompt);
  }
  for (const uint32_t text : wanted.texts) {
    if (text == 0) continue;
    run.tests.push_back({.text_tokens = text});
    context = std::max(context, text + 1);
  }
  if (run.tests.empty() || wanted.repetitions < 1) {
    return Error(Code::kInvalidArgument,
                 "nothing to measure: -p, -n and -r leave no test that runs once");
  }
  options.memory.context = context;
  PICCHIO_ASSIGN_OR_RETURN(auto setup, EngineSetup::Open(model, options));
  PICCHIO_ASSIGN_OR_RETURN(const MemoryPlan plan, setup->Plan(longest_prompt));
  run.model_type = ArchitectureName(setup->config().architecture);
  run.model_bytes = BytesOf(setup->folder());
  run.num_parameters = SizesOf(setup->config()).total_parameters;
  PICCHIO_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                           Engine::Load(std::move(setup), plan));
  run.span = plan.prefill_span;
  run.num_threads = engine->num_threads();
  Progress progress("measuring", run.tests.size() * (static_cast<uint64_t>(wanted.repetitions) + 1),
                    "runs");
  for (LlamaBenchTest& test : run.tests) {
    // Once unmeasured: a whole prompt, of a text one token.
    PICCHIO_RETURN_IF_ERROR(
        Time(*engine, test.prompt_tokens, test.text_tokens > 0 ? 1 : 0, 0, stop).status());
    progress.Add(1);
    test.time = Now();
    for (int i = 1; i <= wanted.repetitions; ++i) {
      PICCHIO_ASSIGN_OR_RETURN(
          const std::chrono::nanoseconds duration,
          Time(*engine, test.prompt_tokens, test.text_tokens, static_cast<uint64_t>(i), stop));
      test.samples_ns.push_back(static_cast<uint64_t>(duration.count()));
      progress.Add(1);
    }
  }
  return run;
}

std::string LlamaBenchText(const std::vector<LlamaBenchRun>& runs, LlamaBenchFormat format) {
  if (format == LlamaBenchFormat::kMd) return MdText(runs);
  std::string text;
  size_t number = 0;
  for (const LlamaBenchRun& run : runs) {
    for (const LlamaBenchTest& test : run.tests) {
      const Fields fields = FieldsOf(run, test, format != LlamaBenchFormat::kCsv);
      if (format == LlamaBenchFormat::kCsv) {
        if (number++ == 0) text += CsvText(fields, true);
        text += CsvText(fields, false);
      } else if (format == LlamaBenchFormat::kJsonl) {
        text += ObjectText(fields) + "\n";
      } else {
        text += (number++ == 0 ? "[\n  " : ",\n  ") + ObjectText(fields);
      }
    }
  }
  return format == LlamaBenchFormat::kJson ? text + "\n]\n" : text;
}

}  // namespace picchio
