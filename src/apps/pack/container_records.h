// Experts' records out of a model's safetensors files, a whole one at a time: what a store is made
// of, mended from and compared with. For running a model there is SafetensorsExpertSource, which
// has many in flight.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/pack/record_check.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "format/expert_container.h"
#include "format/expert_record.h"
#include "format/flat_index.h"
#include "format/tensor_directory.h"
#include "model/config.h"

namespace picchio {

// Const functions may be called from any thread. Borrows the directory.
class ContainerRecords {
 public:
  // Fails with kNotFound where a tensor of an expert is missing and with kCorrupt where one has
  // another type or shape than the layout asks for, by name. With kBiases the directory need not
  // have the experts' own tensors, and their bytes in a record are zero.
  enum class Parts { kAll, kBiases };
  static Result<ContainerRecords> Open(const TensorDirectory& directory,
                                       const ExpertRecordLayout& layout, const ModelConfig& config,
                                       Parts parts = Parts::kAll);

  const ExpertRecordLayout& layout() const { return layout_; }

  // Fills `record`, layout().record_bytes bytes at a multiple of 64, all of it: what lies between
  // its parts is zero. `layer` has experts. Fails with kCorrupt where an E8M0 scale is 255, by
  // name.
  Status Read(uint32_t layer, uint32_t expert, std::span<std::byte> record) const;

  // Hints about a record's bytes; best effort.
  void WillNeed(uint32_t layer, uint32_t expert) const;
  void DropCache(uint32_t layer, uint32_t expert) const;

  // The tensor whose bytes the record has at `offset`, and where in it: "byte 17 of tensor x". For
  // messages.
  std::string Describe(uint32_t layer, uint32_t expert, uint64_t offset) const;

 private:
  // A tensor, or a row of one, and where it goes.
  struct Piece {
    const TensorEntry* tensor = nullptr;
    uint64_t tensor_offset = 0;
    uint64_t tensor_bytes = 0;
    RecordPart part{};
    bool widen = false;              // BF16 in the tensor, F32 in the record.
    uint64_t mxfp4_scales_cols = 0;  // Of E8M0 scales, which must be valid: elements of a row.
  };

  ContainerRecords(const TensorDirectory& directory, const ExpertRecordLayout& layout,
                   uint32_t num_experts)
      : directory_(&directory), layout_(layout), num_experts_(num_experts) {}

  Status AddLayer(uint32_t layer, Parts parts);
  std::span<const Piece> PiecesOf(uint32_t layer, uint32_t expert) const;

  const TensorDirectory* directory_;
  ExpertRecordLayout layout_;
  uint32_t num_experts_;
  size_t pieces_per_expert_ = 0;
  std::vector<size_t> first_piece_;  // By layer; those without experts have none.
  std::vector<Piece> pieces_;        // In the order of layers, experts and parts.
};

// `stored` is a record of the store with its padding, `expected` the container's, padded with
// zeros. kCorrupt with the first byte that differs, naming its tensor.
Status CompareWithContainer(const FlatIndex& index, const ContainerRecords& container,
                            RecordPlace place, std::span<const std::byte> stored,
                            std::span<const std::byte> expected);

}  // namespace picchio
