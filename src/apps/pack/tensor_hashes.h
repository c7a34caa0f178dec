// A store's records against the hashes that the manifest has of the experts' tensors.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <unordered_map>

#include "apps/pack/record_check.h"
#include "base/status.h"
#include "format/expert_record.h"
#include "format/manifest.h"

namespace picchio {

// Borrows the manifest. Const functions may be called from any thread.
class TensorHashes {
 public:
  TensorHashes(const Manifest& manifest, const ExpertRecordLayout& layout);

  // Fails with kCorrupt unless each tensor that is a part of the record has the SHA-256 that the
  // manifest lists, naming the tensor. The bytes between them and the biases are not asked.
  Status Check(RecordPlace place, std::span<const std::byte> record) const;

 private:
  const ExpertRecordLayout layout_;
  std::unordered_map<std::string_view, const Sha256Digest*> hashes_;
};

}  // namespace picchio
