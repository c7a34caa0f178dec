#include "apps/run/expert_storage.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/inspect/inspect_store.h"
#include "experts/packed_expert_source.h"
#include "experts/safetensors_expert_source.h"
#include "format/flat_model.h"
#include "io/bounce_device.h"

namespace picchio {
namespace {

// What a model's records look like where no store says it: INT4 as store version 2 has them,
// everything else as version 3 has them, which carries the biases along.
Result<ExpertRecordLayout> UsualLayout(const ModelFolder& model) {
  const bool v2 = model.experts == PayloadKind::kInt4;
  return ExpertRecordLayout::Make(model.experts, v2 ? RecordVersion::kV2 : RecordVersion::kV3,
                                  model.config.hidden_size, model.config.moe_intermediate_size,
                                  !v2 && model.config.expert_bias);
}

// Buffers that unaligned reads go through: of each queue as many as reads are at the device, but
// for absurd depths.
constexpr int kDefaultBuffers = 32;
constexpr int kMostBuffers = 64;

OpenDeviceOptions DeviceOptions(const StorageOptions& options) {
  return {.kind = options.io,
          .queue_depth = options.queue_depth,
          .num_threads = options.num_io_threads,
          .faults = options.faults};
}

// What decides how the store is opened: its block size, and how large a record is.
Result<OpenDeviceOptions> StoreDeviceOptions(const Path& path, const StorageOptions& options) {
  PICCHIO_ASSIGN_OR_RETURN(const FlatIndex index, InspectStore(path));
  OpenDeviceOptions result = DeviceOptions(options);
  result.max_alignment = index.superblock().block_size;
  result.probe_read_bytes = index.padded_record_bytes();
  return result;
}

// The source, and how it is read.
template <typename Source>
struct Opened {
  std::unique_ptr<Source> source;
  DeviceInUse in_use{};
};

Result<Opened<PackedExpertSource>> OpenStore(const ModelFolder& model, const Path& path,
                                             const StorageOptions& options) {
  PICCHIO_ASSIGN_OR_RETURN(const OpenDeviceOptions how, StoreDeviceOptions(path, options));
  PICCHIO_ASSIGN_OR_RETURN(OpenedDevice opened, OpenDevice({&path, 1}, how));
  if (options.wrap_store) opened.device = options.wrap_store(std::move(opened.device));
  // Once more, through the device that records come from: the file may be another one by now.
  PICCHIO_ASSIGN_OR_RETURN(FlatIndex index, ReadFlatIndex(*opened.device));
  PICCHIO_RETURN_IF_ERROR(
      CheckFlatModel(index, FlatModelOf(model), options.flat_trust, opened.device->name()));
  const BlockDevice* const device = opened.device.get();
  PICCHIO_ASSIGN_OR_RETURN(auto source,
                           PackedExpertSource::Open(std::move(opened.device), std::move(index),
                                                    {.verify_sha256 = options.flat_verify}));
  return Opened<PackedExpertSource>{std::move(source), {device, std::move(opened.choice)}};
}

Result<Opened<SafetensorsExpertSource>> OpenContainer(const ModelFolder& model,
                                                      const ExpertRecordLayout& layout,
                                                      const StorageOptions& options) {
  std::vector<Path> paths;
  for (size_t i = 0; i < model.tensors.num_files(); ++i) {
    paths.push_back(model.path / model.tensors.file_name(i));
  }
  OpenDeviceOptions how = DeviceOptions(options);
  if (how.kind == IoKind::kAuto) how.kind = IoKind::kBuffered;
  PICCHIO_ASSIGN_OR_RETURN(OpenedDevice opened, OpenDevice(paths, how));
  Opened<SafetensorsExpertSource> result;
  if (opened.device->alignment() > 1) {
    const int wanted = how.queue_depth > 0 ? how.queue_depth : kDefaultBuffers;
    PICCHIO_ASSIGN_OR_RETURN(
        auto bounced,
        BounceDevice::Create(std::move(opened.device),
                             {.num_buffers = static_cast<size_t>(std::min(wanted, kMostBuffers))}));
    opened.device = std::move(bounced);
  }
  result.in_use = {opened.device.get(), std::move(opened.choice)};
  std::vector<int> moe_layers;
  for (size_t layer = 0; layer < model.config.layers.size(); ++layer) {
    if (model.config.layers[layer].moe) moe_layers.push_back(static_cast<int>(layer));
  }
  PICCHIO_ASSIGN_OR_RETURN(
      result.source,
      SafetensorsExpertSource::Open(model.tensors, std::move(opened.device), layout, moe_layers,
                                    static_cast<int>(model.config.num_experts)));
  return result;
}

// The store to look for; nothing where there is none to be.
Result<std::optional<Path>> FindStore(const ModelFolder& model, const StorageOptions& options) {
  if (options.flat_off) return std::optional<Path>();
  if (options.flat) {
    // Said by the user, so not there is not a reason for something else.
    if (FileExists(*options.flat)) return options.flat;
    if (SomethingExists(*options.flat)) {
      return Error(Code::kInvalidArgument, "{} is not a regular file, so no store",
                   PathText(*options.flat));
    }
    return Error(Code::kNotFound, "there is no store {}: run picchio pack {} -o {}",
                 PathText(*options.flat), PathText(model.path), PathText(*options.flat));
  }
  const Path beside = model.path / kFlatStoreName;
  return FileExists(beside) ? std::optional(beside) : std::nullopt;
}

constexpr std::string_view kNoContainer =
    "the model's safetensors files have no experts to read instead";

// Fails where a store that nothing stands behind lacks experts of the model.
Status CheckComplete(const PackedExpertSource& store, const ModelFolder& model) {
  const uint64_t held = store.index().superblock().num_entries;
  const uint64_t wanted = uint64_t{model.config.num_moe_layers()} * model.config.num_experts;
  if (held == wanted) return Status::Ok();
  return Error(Code::kNotFound,
               "{} holds {} of the model's {} experts, and {}: convert the checkpoint again",
               store.name(), held, wanted, kNoContainer);
}

// What to do where a record cannot be had from anywhere.
std::string Remedy(const ModelFolder& model, const std::optional<Path>& store, bool has_container) {
  if (!has_container) {
    return fmt::format("{}: copy the store again, or convert the checkpoint again", kNoContainer);
  }
  if (store) {
    return fmt::format(
        "run picchio verify {} --repair --model {}, and where that does not help convert the "
        "checkpoint again",
        PathText(*store), PathText(model.path));
  }
  return fmt::format(
      "run picchio verify {}, and copy the files that it names again or convert the checkpoint "
      "again",
      PathText(model.path));
}

}  // namespace

Result<ExpertStorage> OpenExpertStorage(const ModelFolder& model, const StorageOptions& options,
                                        const std::function<void(std::string_view)>& notice) {
  PICCHIO_ASSIGN_OR_RETURN(const std::optional<Path> path, FindStore(model, options));
  const bool has_container = HasExpertContainers(model.manifest);
  ExpertStorage storage;
  std::vector<std::unique_ptr<ExpertSource>> tiers;
  PICCHIO_ASSIGN_OR_RETURN(ExpertRecordLayout layout, UsualLayout(model));
  std::optional<FlatIndex> index;
  if (path) {
    auto store = OpenStore(model, *path, options);
    if (store.has_value()) {
      if (!has_container) PICCHIO_RETURN_IF_ERROR(CheckComplete(*store->source, model));
      layout = store->source->layout();
      index = store->source->index();
      tiers.push_back(std::move(store->source));
      storage.devices.push_back(std::move(store->in_use));
    } else if (has_container) {
      storage.refusal = store.error().message();
      if (notice) {
        notice(
            fmt::format("{}; reading experts from the safetensors files instead (run picchio "
                        "pack {} for a store of this model)",
                        storage.refusal, PathText(model.path)));
      }
    } else {
      return Error(store.error().code(), "{}; {}: convert the checkpoint again",
                   store.error().message(), kNoContainer);
    }
  }
  if (has_container) {
    PICCHIO_ASSIGN_OR_RETURN(auto container, OpenContainer(model, layout, options));
    if (index.has_value()) container.source->VerifyBy(*std::move(index), options.flat_verify);
    tiers.push_back(std::move(container.source));
    storage.devices.push_back(std::move(container.in_use));
  }
  if (tiers.empty()) {
    return Error(Code::kNotFound, "the experts of {} are in its store only, and {}",
                 PathText(model.path),
                 options.flat_off ? "the store is switched off: run without --flat 0 (or FLAT=0)"
                                  : "experts.picchioflat is not there: bring it back, name it with "
                                    "--flat, or convert the checkpoint again");
  }
  PICCHIO_ASSIGN_OR_RETURN(
      storage.source,
      TieredExpertSource::Create(
          std::move(tiers), notice,
          Remedy(model, storage.refusal.empty() ? path : std::nullopt, has_container)));
  return storage;
}

}  // namespace picchio
