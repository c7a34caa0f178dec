#include "apps/plan/planned_model.h"

#include <fmt/ranges.h>

#include <memory>
#include <utility>

#include "apps/pack/store_facts.h"
#include "apps/run/engine_setup.h"
#include "apps/synth/shapes.h"
#include "apps/synth/synth.h"
#include "base/json.h"
#include "base/printable.h"
#include "model/dense_weights.h"

namespace picchio {
namespace {

constexpr uint64_t kMostProvenance = 1 << 16;

Result<uint64_t> StandInBytes(const PlannedModel& model, bool int8_attention) {
  const DenseTypes types{model.types.int8_head, int8_attention};
  PICCHIO_ASSIGN_OR_RETURN(const TensorDirectory directory, StandInDirectory(model.config, types));
  return DenseWeightBytes(directory, model.config, model.layout.down_bias.bytes == 0);
}

Result<PlannedModel> OfShape(const std::string& name) {
  PlannedModel model{.name = name};
  PICCHIO_ASSIGN_OR_RETURN(const std::string text, ShapeConfig(name, std::nullopt, 0));
  PICCHIO_ASSIGN_OR_RETURN(model.config, ModelConfig::Parse(text, "the shape's config.json"));
  const PayloadKind kind =
      model.config.checkpoint_experts_mxfp4 ? PayloadKind::kMxfp4 : PayloadKind::kInt4;
  PICCHIO_ASSIGN_OR_RETURN(const FlatIndex index,
                           PlaceStore(model.config, kind, {.version = UsualStoreVersion(kind)}));
  model.layout = index.layout();
  model.slot_bytes = index.padded_record_bytes();
  PICCHIO_ASSIGN_OR_RETURN(model.dense_bytes, StandInBytes(model, false));
  PICCHIO_ASSIGN_OR_RETURN(model.int8_dense_bytes, StandInBytes(model, true));
  return model;
}

bool IsInt8(const ModelFolder& folder, std::string_view tensor) {
  const TensorEntry* entry = folder.tensors.Find(tensor);
  return entry != nullptr && entry->dtype == Dtype::kI8;
}

// From synth.json, where the folder has one that says it.
std::optional<double> SkewOf(const Path& folder) {
  const Path path = folder / kSynthName;
  if (!FileExists(path)) return std::nullopt;
  const auto text = ReadFileToString(path, kMostProvenance);
  if (!text.has_value()) return std::nullopt;
  const auto json = ParseJson(*text, PathText(path));
  if (!json.has_value() || !json->is_object()) return std::nullopt;
  const auto skew = json->find("skew");
  if (skew == json->end() || !skew->is_number()) return std::nullopt;
  const auto value = skew->get<double>();
  return value >= 0 && value <= kMaxSkew ? std::optional(value) : std::nullopt;
}

Result<PlannedModel> OfFolder(const Path& folder) {
  PICCHIO_ASSIGN_OR_RETURN(const auto setup, EngineSetup::Open(folder, {}));
  const RunDemand demand = setup->demand();
  PlannedModel model{.name = PathText(folder),
                     .config = demand.config,
                     .layout = demand.layout,
                     .slot_bytes = demand.slot_bytes,
                     .dense_bytes = demand.dense_bytes,
                     .int8_dense_bytes = demand.dense_bytes,
                     .skew = SkewOf(folder),
                     .folder = folder};
  model.types = {
      .int8_head = IsInt8(setup->folder(), "model.embed_tokens.weight"),
      .int8_attention = IsInt8(setup->folder(), "model.layers.0.self_attn.q_proj.weight")};
  if (!model.types.int8_attention) {
    // The difference alone: the model's own tensors may have other types yet.
    PICCHIO_ASSIGN_OR_RETURN(const uint64_t now, StandInBytes(model, false));
    PICCHIO_ASSIGN_OR_RETURN(const uint64_t then, StandInBytes(model, true));
    model.int8_dense_bytes -= std::min(model.int8_dense_bytes, now - then);
  }
  return model;
}

}  // namespace

Result<PlannedModel> FindPlannedModel(const std::string& model_or_shape) {
  if (SomethingExists(model_or_shape)) return OfFolder(model_or_shape);
  if (IsShapeName(model_or_shape)) return OfShape(model_or_shape);
  return Error(Code::kInvalidArgument, "{} is no folder of a model and none of the shapes {}",
               Quoted(model_or_shape), fmt::join(ShapeNames(), ", "));
}

}  // namespace picchio
