#include "apps/pack/tensor_hashes.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/printable.h"

namespace picchio {
namespace {

bool IsCodedAs(TensorScheme scheme, PayloadKind kind) {
  switch (kind) {
    case PayloadKind::kInt4:
      return scheme == TensorScheme::kInt4Absmax || scheme == TensorScheme::kInt4Mse;
    case PayloadKind::kMxfp4:
      return scheme == TensorScheme::kMxfp4;
    case PayloadKind::kBf16:
      return scheme == TensorScheme::kNone;
  }
  return false;
}

Status CheckHash(const ManifestTensor& listed, std::span<const std::byte> bytes) {
  const Sha256Digest found = Sha256Of(bytes);
  if (found == listed.sha256) return Status::Ok();
  return Error(Code::kCorrupt, "tensor {} has the SHA-256 {}, the manifest says {}",
               Quoted(listed.name), found.Hex(), listed.sha256.Hex());
}

}  // namespace

TensorHashes::TensorHashes(const Manifest& manifest, const ExpertRecordLayout& layout)
    : layout_(layout) {
  for (const ManifestTensor& tensor : manifest.tensors) listed_.emplace(tensor.name, &tensor);
}

Result<const ManifestTensor*> TensorHashes::Listed(const ExpertTensor& tensor) const {
  const auto found = listed_.find(tensor.name);
  if (found == listed_.end()) {
    return Error(Code::kCorrupt, "the manifest lists no tensor {}", Quoted(tensor.name));
  }
  const ManifestTensor& listed = *found->second;
  if (listed.dtype != tensor.dtype || listed.shape != tensor.shape ||
      !IsCodedAs(listed.scheme, layout_.kind)) {
    return Error(Code::kCorrupt,
                 "tensor {} is {} {} by the experts' kind and size, the manifest says {} {} of "
                 "scheme {}",
                 Quoted(tensor.name), DtypeName(tensor.dtype), ShapeText(tensor.shape),
                 DtypeName(listed.dtype), ShapeText(listed.shape), SchemeName(listed.scheme));
  }
  return &listed;
}

Status TensorHashes::Check(RecordPlace place, std::span<const std::byte> record) const {
  for (const ExpertTensor& tensor :
       ExpertTensors(layout_, static_cast<int>(place.layer), static_cast<int>(place.expert))) {
    const Result<const ManifestTensor*> listed = Listed(tensor);
    Status sound = listed.status();
    if (sound.ok()) {
      sound = CheckHash(**listed, record.subspan(tensor.part.offset, tensor.part.bytes));
    }
    if (!sound.ok()) {
      return sound.WithContext(fmt::format("layer {} expert {}", place.layer, place.expert));
    }
  }
  return Status::Ok();
}

Status TensorHashes::CheckBiases(const TensorDirectory& tensors, const ModelConfig& config) const {
  for (uint32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!config.layers[layer].moe) continue;
    for (const ExpertTensor& tensor : ExpertBiasTensors(layout_, static_cast<int>(layer),
                                                        static_cast<int>(config.num_experts))) {
      const auto listed = listed_.find(tensor.name);
      if (listed == listed_.end()) {
        return Error(Code::kCorrupt, "the manifest lists no tensor {}", Quoted(tensor.name));
      }
      PICCHIO_ASSIGN_OR_RETURN(const TensorEntry* found, tensors.Get(tensor.name));
      std::vector<std::byte> bytes(found->bytes);
      PICCHIO_RETURN_IF_ERROR(tensors.ReadAt(*found, 0, bytes));
      PICCHIO_RETURN_IF_ERROR(CheckHash(*listed->second, bytes));
    }
  }
  return Status::Ok();
}

}  // namespace picchio
