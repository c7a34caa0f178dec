// A converted model's folder, opened: its manifest, its config and its tensors, checked against
// each other. No weights are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/status.h"
#include "format/expert_record.h"
#include "format/flat_model.h"
#include "format/manifest.h"
#include "format/tensor_directory.h"
#include "model/config.h"
#include "model/generation_config.h"

namespace picchio {

struct ModelFolder {
  Path path;
  Manifest manifest;
  ModelConfig config;
  GenerationConfig generation;
  TensorDirectory tensors;               // Of the safetensors files.
  std::optional<std::string> tokenizer;  // The text of tokenizer.json, where the model has one.
  PayloadKind experts = PayloadKind::kInt4;
};

// Fails where the folder is not a finished model, with what to do; where a file is missing or has
// other bytes than the manifest says (containers: another size); and where a tensor is missing or
// has another type, shape or place.
Result<ModelFolder> OpenModelFolder(const Path& folder);

// What a store is compared with. Of a folder that is not opened it reads the config alone, and
// checks that against the manifest.
FlatModel FlatModelOf(const ModelFolder& model);
Result<FlatModel> ReadFlatModel(const Path& folder, const Manifest& manifest);

// Stands in the folder while a conversion into it is not finished.
inline constexpr std::string_view kJournalName = "conversion.journal";

// "experts-00012.safetensors": holds the experts of one layer and nothing else.
std::string ExpertContainerName(uint32_t layer);
bool IsExpertContainer(std::string_view file_name);

// The manifest of `folder`; where there is none, says what the folder looks like instead.
Result<Manifest> LoadModelManifest(const Path& folder);

// Whether a tensor lies in a store and not in a safetensors file, and whether a store has such.
bool IsInStore(const Manifest& manifest, const ManifestTensor& tensor);
bool HoldsTensors(const Manifest& manifest, const ManifestStore& store);

// Whether the model's safetensors files have its experts; else only its store has.
bool HasExpertContainers(const Manifest& manifest);

// The safetensors files that the manifest lists, each with the size and the tensors that it says;
// tensors that lie in a store are not among them.
Result<TensorDirectory> OpenTensors(const Path& folder, const Manifest& manifest);

}  // namespace picchio
