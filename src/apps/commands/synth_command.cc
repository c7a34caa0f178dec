#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <string>

#include "apps/commands/command.h"
#include "apps/commands/flag_checks.h"
#include "apps/commands/print_json.h"
#include "apps/interrupt.h"
#include "apps/synth/shapes.h"
#include "apps/synth/synth.h"
#include "base/human.h"
#include "base/json.h"
#include "base/thread_pool.h"

namespace picchio {
namespace {

struct SynthFlags {
  std::string model;
  std::string shape;
  int layers = 0;
  double skew = 0;
  std::string dense = "bf16";
  uint64_t seed = 1;
  int threads = 0;
  bool json = false;
};

Status Run(const SynthFlags& flags) {
  SynthOptions options{.shape = flags.shape,
                       .skew = flags.skew,
                       .int8_dense = flags.dense == "int8",
                       .seed = flags.seed};
  if (flags.layers > 0) options.num_layers = static_cast<uint32_t>(flags.layers);
  options.on_plan = [&](uint64_t bytes) {
    if (!flags.json) {
      std::printf("making %s in %s\n", FormatBytes(bytes).c_str(), flags.model.c_str());
      std::fflush(stdout);
    }
  };
  const int threads = flags.threads > 0 ? flags.threads : UsableCpus();
  Result<SynthReport> report = Synthesize(flags.model, options, threads, InterruptFlag());
  if (!report && report.error().code() == Code::kCancelled) {
    return Status(Code::kCancelled, "stopped; nothing is left of the model");
  }
  PICCHIO_RETURN_IF_ERROR(report.status());
  const double rate = static_cast<double>(report->store_bytes) / 1e9 / report->store_seconds;
  if (flags.json) {
    PrintJson({{"model", flags.model},
               {"model_id", report->model_id},
               {"dense_bytes", report->dense_bytes},
               {"store_bytes", report->store_bytes},
               {"seconds", report->seconds},
               {"store_gb_per_s", rate},
               {"unbuffered", report->unbuffered}});
    return Status::Ok();
  }
  std::printf("%s of dense weights and %s of experts in %s (experts at %.2f GB/s, %s)\n",
              FormatBytes(report->dense_bytes).c_str(), FormatBytes(report->store_bytes).c_str(),
              FormatDuration(report->seconds).c_str(), rate,
              report->unbuffered ? "past the page cache" : "through the page cache");
  std::printf("model %s is in %s\n", report->model_id.c_str(), flags.model.c_str());
  return Status::Ok();
}

}  // namespace

void AddSynthCommand(Command& commands) {
  auto flags = std::make_shared<SynthFlags>();
  Command command = commands.Sub("synth", "Make a model of a published shape with random weights");
  command.Option("OUT", flags->model, "Folder to make the model in; it must not be there yet")
      .Required()
      .Check(NotEmpty());
  command
      .Option("--shape", flags->shape,
              fmt::format("Whose dimensions: {}", fmt::join(ShapeNames(), ", ")))
      .Required()
      .OneOf(ShapeNames());
  command.Option("--layers", flags->layers, "Only the first N layers (default: all)")
      .Check(WholeNumberFrom(1, 1024));
  command
      .Option("--skew", flags->skew,
              "How unevenly experts are used: 0 evenly, 1 as Zipf's law (docs/synth.md)")
      .Check(NumberFrom(0, kMaxSkew))
      .ShowDefault();
  command.Option("--dense", flags->dense, "Attention matrices: bf16, or int8 (half the memory)")
      .OneOf({"bf16", "int8"})
      .ShowDefault();
  command.Option("-s,--seed", flags->seed, "The same seed gives the same model, to the bit")
      .Check(WholeNumberFrom(0, INT64_MAX))
      .ShowDefault();
  command.Option("-t,--threads", flags->threads, "Threads (default: all CPUs)")
      .Check(WholeNumberFrom(1, 256));
  command.Switch("--json", flags->json, "Report as JSON");
  command.Footer(
      "For measuring a machine before anything is downloaded: it has the sizes of the real model, "
      "and\n"
      "its text is noise. What is not finished leaves nothing that looks like a model.\n\n"
      "Examples:\n"
      "  picchio synth ~/models/synth-30b --shape qwen3-30b-a3b --skew 0.8\n"
      "  picchio synth /mnt/nvme/oss --shape gpt-oss-120b --dense int8\n"
      "  picchio run ~/models/synth-30b -p \"Once upon a time\" -n 50 --stats");
  command.Run([flags] { return Run(*flags); });
}

}  // namespace picchio
