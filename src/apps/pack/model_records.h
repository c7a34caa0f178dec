// What a model says that the records of its stores must be.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "apps/model_folder.h"
#include "apps/pack/container_records.h"
#include "apps/pack/record_check.h"
#include "apps/pack/tensor_hashes.h"
#include "base/status.h"
#include "format/flat_index.h"

namespace picchio {

// The bytes of its safetensors files or, where its experts are in a store alone, its manifest's
// hashes: of the experts' tensors, for the biases are in safetensors always, and all else is zero.
// Borrows the model. Const functions may be called from any thread.
class ModelRecords {
 public:
  // Fails as ContainerRecords::Open does.
  static Result<ModelRecords> Open(const ModelFolder& model, const ExpertRecordLayout& layout);

  bool by_hash() const { return hashes_.has_value(); }

  void WillNeed(RecordPlace place) const;  // A hint.

  // Reads what the record must be to the front of `expected`, whose rest is left as it is; zeros
  // where hashes tell.
  Status Read(RecordPlace place, std::span<std::byte> expected) const;

  // kCorrupt unless `stored`, a record of the store with its padding, is what Read has read, padded
  // with zeros, or has the hashes; naming the expert and the tensor.
  Status Compare(const FlatIndex& index, RecordPlace place, std::span<const std::byte> stored,
                 std::span<const std::byte> expected) const;

 private:
  explicit ModelRecords(ContainerRecords container) : container_(std::move(container)) {}

  ContainerRecords container_;
  std::optional<TensorHashes> hashes_;  // Then the container has the biases alone.
};

}  // namespace picchio
