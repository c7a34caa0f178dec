#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "apps/commands/command.h"
#include "apps/commands/print_json.h"
#include "apps/interrupt.h"
#include "apps/pack/pack.h"
#include "base/human.h"
#include "base/json.h"
#include "base/thread_pool.h"

namespace picchio {
namespace {

struct PackFlags {
  std::string model;
  std::string output;
  std::string format;
  uint32_t layers = 0;
  uint32_t block_size = kMinFlatBlock;
  bool verify = false;
  int threads = 0;
  bool json = false;
};

PackOptions OptionsOf(const PackFlags& flags) {
  PackOptions options{.block_size = flags.block_size, .read_back = flags.verify};
  if (!flags.output.empty()) options.output = flags.output;
  if (flags.format == "v2") options.version = RecordVersion::kV2;
  if (flags.format == "v3") options.version = RecordVersion::kV3;
  if (flags.layers > 0) options.num_layers = flags.layers;
  return options;
}

void PrintReport(const PackFlags& flags, const PackReport& report) {
  const double rate =
      report.seconds > 0 ? static_cast<double>(report.store_bytes) / 1e9 / report.seconds : 0;
  if (flags.json) {
    PrintJson({{"store", PathText(report.store)},
               {"format", static_cast<int>(report.version)},
               {"records", report.num_records},
               {"records_of_model", report.num_all_records},
               {"bytes", report.store_bytes},
               {"index_sha256", report.index_sha256.Hex()},
               {"seconds", report.seconds},
               {"gb_per_s", rate},
               {"unbuffered", report.unbuffered},
               {"read_back", report.read_back}});
    return;
  }
  if (!report.unbuffered) {
    std::printf("note: the file system does not write past its cache; it was written through it\n");
  }
  if (report.num_records < report.num_all_records) {
    std::printf("note: a partial store, with %llu of the model's %llu experts\n",
                static_cast<unsigned long long>(report.num_records),
                static_cast<unsigned long long>(report.num_all_records));
  }
  std::printf("%llu experts, %s in %s (%.2f GB/s)%s: %s\n",
              static_cast<unsigned long long>(report.num_records),
              FormatBytes(report.store_bytes).c_str(), FormatDuration(report.seconds).c_str(), rate,
              report.read_back ? ", read back whole" : "", PathText(report.store).c_str());
}

Status Run(const PackFlags& flags) {
  const PackOptions options = OptionsOf(flags);
  const int threads = flags.threads > 0 ? flags.threads : UsableCpus();
  const Result<PackReport> report = Pack(flags.model, options, threads, InterruptFlag());
  if (!report && report.error().code() == Code::kCancelled) {
    return Status(Code::kCancelled, "stopped; what was there before is as it was");
  }
  PICCHIO_RETURN_IF_ERROR(report.status());
  PrintReport(flags, *report);
  return Status::Ok();
}

}  // namespace

void AddPackCommand(Command& commands) {
  auto flags = std::make_shared<PackFlags>();
  Command command = commands.Sub(
      "pack", "Write a model's experts from its safetensors files into an aligned store");
  command.Option("MODEL,-m,--model", flags->model, "Folder of the model")
      .Required()
      .Check(NotEmpty());
  command
      .Option("-o,--output", flags->output,
              "The store (default: experts.picchioflat in the model's folder)")
      .Check(NotEmpty());
  command
      .Option("--layers", flags->layers,
              "Only the experts of the first N layers: a partial store, for tests")
      .Environment("FLAT_LAYERS")
      .Check(WholeNumberFrom(1, kMaxFlatLayers));
  command
      .Option("--format", flags->format,
              "v2, or v3 (a checksum at every load); by default v2 for INT4 experts, v3 for "
              "all others, which v2 cannot hold")
      .OneOf({"v2", "v3"});
  command
      .Option("--block-size", flags->block_size,
              "What records are aligned to: a power of two from 4096 to 1048576")
      .OneOf({"4096", "8192", "16384", "32768", "65536", "131072", "262144", "524288", "1048576"})
      .ShowDefault();
  command.Switch("--verify", flags->verify, "Read the store back and check every hash");
  command.Option("-t,--threads", flags->threads, "Threads that hash (default: all CPUs)")
      .Check(WholeNumberFrom(1, 256));
  command.Switch("--json", flags->json, "Report as JSON");
  command.Footer(
      "The store appears whole or not at all: until then the old one stays, and beside it the "
      "disk\n"
      "must hold the new one.\n\n"
      "Examples:\n"
      "  picchio pack ~/models/qwen3-30b\n"
      "  picchio pack ~/models/qwen3-30b -o /fast/qwen3.picchioflat --format v3 --verify");
  command.Run([flags] { return Run(*flags); });
}

}  // namespace picchio
