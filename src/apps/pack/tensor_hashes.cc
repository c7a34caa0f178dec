#include "apps/pack/tensor_hashes.h"

#include "base/printable.h"
#include "format/expert_container.h"

namespace picchio {

TensorHashes::TensorHashes(const Manifest& manifest, const ExpertRecordLayout& layout)
    : layout_(layout) {
  for (const ManifestTensor& tensor : manifest.tensors) {
    hashes_.emplace(tensor.name, &tensor.sha256);
  }
}

Status TensorHashes::Check(RecordPlace place, std::span<const std::byte> record) const {
  for (const ExpertTensor& tensor :
       ExpertTensors(layout_, static_cast<int>(place.layer), static_cast<int>(place.expert))) {
    const auto listed = hashes_.find(tensor.name);
    if (listed == hashes_.end()) {
      return Error(Code::kCorrupt, "layer {} expert {}: the manifest lists no tensor {}",
                   place.layer, place.expert, Quoted(tensor.name));
    }
    const Sha256Digest found = Sha256Of(record.subspan(tensor.part.offset, tensor.part.bytes));
    if (found != *listed->second) {
      return Error(
          Code::kCorrupt, "layer {} expert {}: tensor {} has the SHA-256 {}, the manifest says {}",
          place.layer, place.expert, Quoted(tensor.name), found.Hex(), listed->second->Hex());
    }
  }
  return Status::Ok();
}

}  // namespace picchio
