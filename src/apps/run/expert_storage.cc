#include "apps/run/expert_storage.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "experts/packed_expert_source.h"
#include "experts/safetensors_expert_source.h"
#include "format/flat_model.h"
#include "io/buffered_device.h"

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

Result<std::unique_ptr<PackedExpertSource>> OpenStore(const ModelFolder& model, const Path& path,
                                                      const StorageOptions& options) {
  PICCHIO_ASSIGN_OR_RETURN(
      std::unique_ptr<BlockDevice> device,
      BufferedDevice::Open({&path, 1}, {.num_threads = options.num_io_threads}));
  PICCHIO_ASSIGN_OR_RETURN(FlatIndex index, ReadFlatIndex(*device));
  PICCHIO_RETURN_IF_ERROR(
      CheckFlatModel(index, FlatModelOf(model), options.flat_trust, device->name()));
  return PackedExpertSource::Open(std::move(device), std::move(index),
                                  {.verify_sha256 = options.flat_verify});
}

Result<std::unique_ptr<ExpertSource>> OpenContainer(const ModelFolder& model,
                                                    const ExpertRecordLayout& layout,
                                                    int num_io_threads) {
  std::vector<Path> paths;
  for (size_t i = 0; i < model.tensors.num_files(); ++i) {
    paths.push_back(model.path / model.tensors.file_name(i));
  }
  PICCHIO_ASSIGN_OR_RETURN(std::unique_ptr<BlockDevice> device,
                           BufferedDevice::Open(paths, {.num_threads = num_io_threads}));
  std::vector<int> moe_layers;
  for (size_t layer = 0; layer < model.config.layers.size(); ++layer) {
    if (model.config.layers[layer].moe) moe_layers.push_back(static_cast<int>(layer));
  }
  PICCHIO_ASSIGN_OR_RETURN(
      std::unique_ptr<ExpertSource> source,
      SafetensorsExpertSource::Open(model.tensors, std::move(device), layout, moe_layers,
                                    static_cast<int>(model.config.num_experts)));
  return source;
}

// The store to look for; nothing where there is none to be.
Result<std::optional<Path>> FindStore(const ModelFolder& model, const StorageOptions& options) {
  if (options.flat_off) return std::optional<Path>();
  if (options.flat) {
    // Said by the user, so not there is not a reason for something else.
    if (FileExists(*options.flat)) return options.flat;
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
  if (path) {
    auto store = OpenStore(model, *path, options);
    if (store.has_value()) {
      if (!has_container) PICCHIO_RETURN_IF_ERROR(CheckComplete(**store, model));
      layout = (*store)->layout();
      tiers.push_back(std::move(*store));
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
    PICCHIO_ASSIGN_OR_RETURN(std::unique_ptr<ExpertSource> container,
                             OpenContainer(model, layout, options.num_io_threads));
    tiers.push_back(std::move(container));
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
