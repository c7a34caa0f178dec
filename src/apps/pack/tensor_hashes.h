// Experts' records against what the manifest says of the tensors that they are made of.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <unordered_map>

#include "apps/pack/record_check.h"
#include "base/status.h"
#include "format/expert_container.h"
#include "format/expert_record.h"
#include "format/manifest.h"
#include "format/tensor_directory.h"
#include "model/config.h"

namespace picchio {

// Borrows the manifest. Const functions may be called from any thread.
class TensorHashes {
 public:
  TensorHashes(const Manifest& manifest, const ExpertRecordLayout& layout);

  // Fails with kCorrupt unless each tensor that is a part of the record has the dtype, shape,
  // scheme and SHA-256 that the manifest lists, naming the tensor. The bytes
  // between them and the biases are not asked.
  Status Check(RecordPlace place, std::span<const std::byte> record) const;

  // The same for the biases, of which safetensors hold one tensor for all experts of a layer.
  Status CheckBiases(const TensorDirectory& tensors, const ModelConfig& config) const;

 private:
  Result<const ManifestTensor*> Listed(const ExpertTensor& tensor) const;

  const ExpertRecordLayout layout_;
  std::unordered_map<std::string_view, const ManifestTensor*> listed_;
};

}  // namespace picchio
