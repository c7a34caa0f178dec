#include <cstdio>
#include <memory>
#include <string>

#include "apps/commands/command.h"
#include "apps/commands/flag_checks.h"
#include "apps/commands/print_json.h"
#include "apps/convert/convert.h"
#include "apps/interrupt.h"
#include "base/human.h"
#include "base/json.h"
#include "base/thread_pool.h"

namespace picchio {
namespace {

struct ConvertFlags {
  std::string checkpoint;
  std::string model;
  std::string experts;
  std::string dense = "bf16";
  std::string head = "int8";
  std::string quantizer = "mse";
  bool keep_safetensors = false;
  int threads = 0;
  bool json = false;
};

ConversionOptions OptionsOf(const ConvertFlags& flags) {
  ConversionOptions options;
  if (flags.experts == "int4") options.experts = PayloadKind::kInt4;
  if (flags.experts == "mxfp4") options.experts = PayloadKind::kMxfp4;
  if (flags.experts == "bf16") options.experts = PayloadKind::kBf16;
  options.int8_dense = flags.dense == "int8";
  options.int8_head = flags.head == "int8";
  options.quantizer = flags.quantizer == "mse" ? Int4Scheme::kMse : Int4Scheme::kAbsmax;
  options.keep_safetensors = flags.keep_safetensors;
  return options;
}

void PrintReport(const ConvertFlags& flags, const ConversionReport& report) {
  const double rate =
      report.seconds > 0
          ? static_cast<double>(report.source_bytes - report.resumed_bytes) / 1e9 / report.seconds
          : 0;
  if (flags.json) {
    Json json{{"model", flags.model},
              {"model_id", report.model_id},
              {"source_bytes", report.source_bytes},
              {"output_bytes", report.output_bytes},
              {"resumed_bytes", report.resumed_bytes},
              {"seconds", report.seconds},
              {"source_gb_per_s", rate},
              {"relative_error", Json::object()},
              {"notes", report.notes}};
    for (const auto& [tensor_class, error] : report.errors) {
      json["relative_error"][std::string(TensorClassName(tensor_class))] = error.Relative();
    }
    PrintJson(json);
    return;
  }
  std::printf("%s read, %s written in %s (%.2f GB/s read)\n",
              FormatBytes(report.source_bytes - report.resumed_bytes).c_str(),
              FormatBytes(report.output_bytes).c_str(), FormatDuration(report.seconds).c_str(),
              rate);
  if (report.resumed_bytes > 0) {
    std::printf("%s had been converted by an earlier run\n",
                FormatBytes(report.resumed_bytes).c_str());
  }
  for (const auto& [tensor_class, error] : report.errors) {
    std::printf("relative error of %-10s %.4f\n",
                std::string(TensorClassName(tensor_class)).c_str(), error.Relative());
  }
  std::printf("model %s is in %s\n", report.model_id.c_str(), flags.model.c_str());
}

Status Run(const ConvertFlags& flags) {
  const std::atomic<bool>& stop = InterruptFlag();
  const int threads = flags.threads > 0 ? flags.threads : UsableCpus();
  Result<ConversionReport> report =
      Convert(flags.checkpoint, flags.model, OptionsOf(flags), threads, stop,
              [](const std::string& note) { std::fprintf(stderr, "note: %s\n", note.c_str()); });
  if (!report && report.error().code() == Code::kCancelled) {
    return Status(
        Code::kCancelled,
        "stopped; the same command goes on from here, and what is done is kept in " + flags.model);
  }
  PICCHIO_RETURN_IF_ERROR(report.status());
  PrintReport(flags, *report);
  return Status::Ok();
}

}  // namespace

void AddConvertCommand(Command& commands) {
  auto flags = std::make_shared<ConvertFlags>();
  Command command = commands.Sub("convert", "Convert a Hugging Face checkpoint to a model");
  command.Option("HF_DIR", flags->checkpoint, "Folder of the checkpoint")
      .Required()
      .Check(NotEmpty());
  command.Option("OUT_DIR", flags->model, "Folder to make the model in")
      .Required()
      .Check(NotEmpty());
  command
      .Option("--experts", flags->experts,
              "How experts are kept: int4, mxfp4 (as published) or bf16 (exact); by default "
              "MXFP4 stays as it is and everything else becomes int4")
      .OneOf({"int4", "mxfp4", "bf16"});
  command
      .Option("--dense", flags->dense,
              "Attention and dense layers: bf16 (exact) or int8 (half the memory)")
      .OneOf({"bf16", "int8"})
      .ShowDefault();
  command.Option("--head", flags->head, "Embedding and head: int8 or bf16 (exact)")
      .OneOf({"int8", "bf16"})
      .ShowDefault();
  command
      .Option("--quantizer", flags->quantizer,
              "How INT4 scales are chosen: mse (smallest squared error) or absmax")
      .OneOf({"mse", "absmax"})
      .ShowDefault();
  command.Switch("--keep-safetensors", flags->keep_safetensors,
                 "Write the experts as safetensors too, beside the store: picchio pack and "
                 "picchio verify --repair read them, and a run falls back on them");
  command.Option("-t,--threads", flags->threads, "Threads (default: all CPUs)")
      .Check(WholeNumberFrom(1, 256));
  command.Switch("--json", flags->json, "Report as JSON");
  command.Footer(
      "A conversion that was stopped or killed goes on where it was when run again with the same\n"
      "flags.\n\n"
      "Examples:\n"
      "  picchio convert ~/Qwen3-30B-A3B ~/models/qwen3-30b\n"
      "  picchio convert ~/gpt-oss-120b ~/models/gpt-oss-120b --dense int8\n"
      "  picchio convert ~/Qwen3-30B-A3B ~/models/exact --experts bf16 --head bf16");
  command.Run([flags] { return Run(*flags); });
}

}  // namespace picchio
