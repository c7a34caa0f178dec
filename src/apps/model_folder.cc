#include "apps/model_folder.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/foreign_content.h"
#include "base/hash.h"
#include "base/printable.h"
#include "format/dtype.h"

namespace picchio {
namespace {

Status CheckTensor(const ManifestTensor& listed, const TensorDirectory& tensors) {
  const TensorEntry* found = tensors.Find(listed.name);
  if (found == nullptr) {
    return Error(Code::kCorrupt, "tensor {} is not in {}, where the manifest says it is",
                 Quoted(listed.name), listed.file);
  }
  if (tensors.file_name(found->file_idx) != listed.file) {
    return Error(Code::kCorrupt, "tensor {} is in {}, the manifest says {}", Quoted(listed.name),
                 tensors.file_name(found->file_idx), listed.file);
  }
  if (found->dtype != listed.dtype || found->shape != listed.shape) {
    return Error(Code::kCorrupt, "tensor {} is {} {} in {}, the manifest says {} {}",
                 Quoted(listed.name), DtypeName(found->dtype), ShapeText(found->shape), listed.file,
                 DtypeName(listed.dtype), ShapeText(listed.shape));
  }
  return Status::Ok();
}

FlatModel FlatModelOf(const Manifest& manifest, const ModelConfig& config, PayloadKind experts) {
  FlatModel facts{.hidden_size = config.hidden_size,
                  .num_experts = config.num_experts,
                  .experts_per_token = config.experts_per_token,
                  .intermediate_size = config.moe_intermediate_size,
                  .moe_layers = {},
                  .kind = experts,
                  .has_biases = config.expert_bias,
                  .id = manifest.model_id(),
                  .stores = manifest.stores};
  for (const LayerConfig& layer : config.layers) facts.moe_layers.push_back(layer.moe);
  return facts;
}

// All experts of a model are coded alike; any of their tensors tells how.
Result<PayloadKind> ExpertKind(const Manifest& manifest) {
  constexpr std::string_view kDown = ".mlp.experts.down_proj.0";
  for (const ManifestTensor& tensor : manifest.tensors) {
    const size_t at = tensor.name.find(kDown);
    if (at == std::string::npos) continue;
    const std::string_view suffix = std::string_view(tensor.name).substr(at + kDown.size());
    if (suffix == ".blocks") return PayloadKind::kMxfp4;
    if (suffix == ".qs") return PayloadKind::kInt4;
    if (suffix.empty() && tensor.dtype == Dtype::kBf16) return PayloadKind::kBf16;
  }
  return Error(Code::kCorrupt, "the manifest lists no expert's tensors");
}

}  // namespace

std::string ExpertContainerName(uint32_t layer) {
  return fmt::format("experts-{:05}.safetensors", layer);
}

bool IsExpertContainer(std::string_view file_name) {
  constexpr std::string_view kPrefix = "experts-";
  if (!file_name.starts_with(kPrefix)) return false;
  // As ExpertContainerName writes the number: five digits, or more where they are needed.
  uint32_t layer = 0;
  const char* const end = file_name.data() + file_name.size();
  const auto parsed = std::from_chars(file_name.data() + kPrefix.size(), end, layer);
  return parsed.ec == std::errc() && file_name == ExpertContainerName(layer);
}

Result<Manifest> LoadModelManifest(const Path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return Error(Code::kNotFound, "{} is not a folder{}", PathText(folder),
                 SomethingExists(folder) ? "" : ": nothing has that name");
  }
  if (SomethingExists(folder / kManifestName)) return LoadManifest(folder);
  if (SomethingExists(folder / kJournalName)) {
    return Error(Code::kNotFound,
                 "the conversion into {} is not finished: run the same picchio convert again",
                 PathText(folder));
  }
  if (SomethingExists(folder / "config.json")) {
    return Error(Code::kNotFound,
                 "{} holds a checkpoint, not a converted model: run picchio convert {} OUT_DIR",
                 PathText(folder), PathText(folder));
  }
  return Error(Code::kNotFound, "{} is not a model folder: it has no {}", PathText(folder),
               kManifestName);
}

bool IsInStore(const Manifest& manifest, const ManifestTensor& tensor) {
  return std::ranges::find(manifest.stores, tensor.file, &ManifestStore::name) !=
         manifest.stores.end();
}

bool HoldsTensors(const Manifest& manifest, const ManifestStore& store) {
  return std::ranges::find(manifest.tensors, store.name, &ManifestTensor::file) !=
         manifest.tensors.end();
}

bool HasExpertContainers(const Manifest& manifest) {
  return std::ranges::none_of(
      manifest.tensors, [&](const ManifestTensor& tensor) { return IsInStore(manifest, tensor); });
}

Result<TensorDirectory> OpenTensors(const Path& folder, const Manifest& manifest) {
  std::vector<std::string> names;
  for (const ManifestContainer& container : manifest.containers) names.push_back(container.name);
  PICCHIO_ASSIGN_OR_RETURN(TensorDirectory tensors, TensorDirectory::OpenFiles(folder, names));
  for (size_t i = 0; i < names.size(); ++i) {
    if (tensors.file_bytes(i) != manifest.containers[i].bytes) {
      return Error(Code::kCorrupt, "{} has {} bytes, the manifest says {}",
                   PathText(folder / names[i]), tensors.file_bytes(i),
                   manifest.containers[i].bytes);
    }
  }
  size_t num_listed = 0;
  for (const ManifestTensor& listed : manifest.tensors) {
    if (IsInStore(manifest, listed)) continue;
    PICCHIO_RETURN_IF_ERROR(CheckTensor(listed, tensors));
    ++num_listed;
  }
  if (tensors.tensors().size() != num_listed) {
    return Error(Code::kCorrupt, "{} holds {} tensors, its manifest lists {}", PathText(folder),
                 tensors.tensors().size(), num_listed);
  }
  return tensors;
}

namespace {

// The text of a file that comes along with the model, checked against the manifest; nothing where
// the manifest does not list it, whatever lies in the folder.
Result<std::optional<std::string>> ReadCompanion(const Path& folder, const Manifest& manifest,
                                                 std::string_view name) {
  for (const ManifestFile& listed : manifest.files) {
    if (listed.name != name) continue;
    PICCHIO_ASSIGN_OR_RETURN(std::string text, ReadFileToString(folder / name, listed.bytes));
    if (Sha256Of(text) != listed.sha256) {
      PICCHIO_RETURN_IF_ERROR(CheckNotForeign(text, PathText(folder / name)));
      return Error(Code::kCorrupt,
                   "{} is not the file that the manifest lists: restore it, or convert again",
                   PathText(folder / name));
    }
    return std::optional(std::move(text));
  }
  return std::optional<std::string>();
}

Result<ModelConfig> ReadConfig(const Path& folder, const Manifest& manifest) {
  PICCHIO_ASSIGN_OR_RETURN(const auto text, ReadCompanion(folder, manifest, "config.json"));
  if (!text) return Error(Code::kCorrupt, "the manifest lists no config.json");
  return ModelConfig::Parse(*text, PathText(folder / "config.json"));
}

}  // namespace

Result<ModelFolder> OpenModelFolder(const Path& folder) {
  PICCHIO_ASSIGN_OR_RETURN(Manifest manifest, LoadModelManifest(folder));
  PICCHIO_ASSIGN_OR_RETURN(ModelConfig config, ReadConfig(folder, manifest));
  PICCHIO_ASSIGN_OR_RETURN(const auto generation_text,
                           ReadCompanion(folder, manifest, "generation_config.json"));
  GenerationConfig generation;
  if (generation_text) {
    PICCHIO_ASSIGN_OR_RETURN(
        generation,
        GenerationConfig::Parse(*generation_text, PathText(folder / "generation_config.json"),
                                config.vocab_size));
  }
  PICCHIO_ASSIGN_OR_RETURN(auto tokenizer, ReadCompanion(folder, manifest, "tokenizer.json"));
  PICCHIO_ASSIGN_OR_RETURN(TensorDirectory tensors, OpenTensors(folder, manifest));
  PICCHIO_ASSIGN_OR_RETURN(const PayloadKind experts, ExpertKind(manifest));
  return ModelFolder{.path = folder,
                     .manifest = std::move(manifest),
                     .config = std::move(config),
                     .generation = std::move(generation),
                     .tensors = std::move(tensors),
                     .tokenizer = std::move(tokenizer),
                     .experts = experts};
}

FlatModel FlatModelOf(const ModelFolder& model) {
  return FlatModelOf(model.manifest, model.config, model.experts);
}

Result<FlatModel> ReadFlatModel(const Path& folder, const Manifest& manifest) {
  PICCHIO_ASSIGN_OR_RETURN(const ModelConfig config, ReadConfig(folder, manifest));
  PICCHIO_ASSIGN_OR_RETURN(const PayloadKind experts, ExpertKind(manifest));
  return FlatModelOf(manifest, config, experts);
}

}  // namespace picchio
