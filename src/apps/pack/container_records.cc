#include "apps/pack/container_records.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/printable.h"
#include "format/mxfp4.h"

namespace picchio {
namespace {

Result<const TensorEntry*> FindTensor(const TensorDirectory& directory,
                                      const ExpertTensor& expected, bool or_f32) {
  PICCHIO_ASSIGN_OR_RETURN(const TensorEntry* found, directory.Get(expected.name));
  const bool right_type = found->dtype == expected.dtype || (or_f32 && found->dtype == Dtype::kF32);
  if (!right_type || found->shape != expected.shape) {
    return Error(Code::kCorrupt, "tensor {} is {} {}, expected {} {}", Quoted(expected.name),
                 DtypeName(found->dtype), ShapeText(found->shape), DtypeName(expected.dtype),
                 ShapeText(expected.shape));
  }
  return found;
}

}  // namespace

Result<ContainerRecords> ContainerRecords::Open(const TensorDirectory& directory,
                                                const ExpertRecordLayout& layout,
                                                const ModelConfig& config, Parts parts) {
  ContainerRecords records(directory, layout, config.num_experts);
  for (uint32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    records.first_piece_.push_back(records.pieces_.size());
    if (config.layers[layer].moe) PICCHIO_RETURN_IF_ERROR(records.AddLayer(layer, parts));
  }
  return records;
}

Status ContainerRecords::AddLayer(uint32_t layer, Parts parts) {
  const auto layer_idx = static_cast<int>(layer);
  std::vector<Piece> biases;
  for (const ExpertTensor& expected :
       ExpertBiasTensors(layout_, layer_idx, static_cast<int>(num_experts_))) {
    PICCHIO_ASSIGN_OR_RETURN(const TensorEntry* found, FindTensor(*directory_, expected, true));
    biases.push_back({.tensor = found,
                      .tensor_bytes = found->bytes / num_experts_,
                      .part = expected.part,
                      .widen = found->dtype == Dtype::kBf16});
  }
  for (uint32_t expert = 0; expert < num_experts_; ++expert) {
    const size_t first = pieces_.size();
    for (const ExpertTensor& expected :
         ExpertTensors(layout_, layer_idx, static_cast<int>(expert))) {
      if (parts == Parts::kBiases) break;
      PICCHIO_ASSIGN_OR_RETURN(const TensorEntry* found, FindTensor(*directory_, expected, false));
      Piece& piece = pieces_.emplace_back();
      piece.tensor = found;
      piece.tensor_bytes = found->bytes;
      piece.part = expected.part;
      if (layout_.kind == PayloadKind::kMxfp4 && expected.part.bytes > 0) {
        if (expected.part.offset == layout_.gate_up_scales.offset) {
          piece.mxfp4_scales_cols = layout_.hidden_size;
        } else if (expected.part.offset == layout_.down_scales.offset) {
          piece.mxfp4_scales_cols = layout_.intermediate_size;
        }
      }
    }
    for (Piece bias : biases) {
      bias.tensor_offset = expert * bias.tensor_bytes;
      pieces_.push_back(bias);
    }
    pieces_per_expert_ = pieces_.size() - first;
  }
  return Status::Ok();
}

std::span<const ContainerRecords::Piece> ContainerRecords::PiecesOf(uint32_t layer,
                                                                    uint32_t expert) const {
  return std::span(pieces_).subspan(first_piece_[layer] + expert * pieces_per_expert_,
                                    pieces_per_expert_);
}

Status ContainerRecords::Read(uint32_t layer, uint32_t expert, std::span<std::byte> record) const {
  PICCHIO_CHECK(record.size() == layout_.record_bytes);
  uint64_t end = 0;
  for (const Piece& piece : PiecesOf(layer, expert)) {
    std::memset(record.data() + end, 0, piece.part.offset - end);
    end = piece.part.offset + piece.part.bytes;
    const auto into = record.subspan(piece.part.offset, piece.part.bytes);
    if (!piece.widen) {
      PICCHIO_RETURN_IF_ERROR(directory_->ReadAt(*piece.tensor, piece.tensor_offset, into));
      if (const uint64_t cols = piece.mxfp4_scales_cols; cols > 0) {
        const Status valid = CheckMxfp4Scales(into, cols, 0);
        if (!valid.ok()) return valid.WithContext("tensor " + Quoted(piece.tensor->name));
      }
      continue;
    }
    std::vector<std::byte> narrow(piece.tensor_bytes);
    PICCHIO_RETURN_IF_ERROR(directory_->ReadAt(*piece.tensor, piece.tensor_offset, narrow));
    WidenToF32(Dtype::kBf16, narrow,
               {reinterpret_cast<float*>(into.data()), into.size() / sizeof(float)});
  }
  std::memset(record.data() + end, 0, record.size() - end);
  return Status::Ok();
}

void ContainerRecords::WillNeed(uint32_t layer, uint32_t expert) const {
  for (const Piece& piece : PiecesOf(layer, expert)) {
    directory_->WillNeed(*piece.tensor, piece.tensor_offset, piece.tensor_bytes);
  }
}

void ContainerRecords::DropCache(uint32_t layer, uint32_t expert) const {
  for (const Piece& piece : PiecesOf(layer, expert)) {
    directory_->DropCache(*piece.tensor, piece.tensor_offset, piece.tensor_bytes);
  }
}

std::string ContainerRecords::Describe(uint32_t layer, uint32_t expert, uint64_t offset) const {
  for (const Piece& piece : PiecesOf(layer, expert)) {
    if (offset < piece.part.offset || offset - piece.part.offset >= piece.part.bytes) continue;
    const uint64_t byte = (offset - piece.part.offset) / (piece.widen ? 2 : 1);
    return fmt::format("byte {} of tensor {}", piece.tensor_offset + byte,
                       Quoted(piece.tensor->name));
  }
  return fmt::format("byte {} of the record, between its parts", offset);
}

Status CompareWithContainer(const FlatIndex& index, const ContainerRecords& container,
                            RecordPlace place, std::span<const std::byte> stored,
                            std::span<const std::byte> expected) {
  const auto [found_at, expected_at] = std::ranges::mismatch(stored, expected);
  if (found_at == stored.end()) return Status::Ok();
  const auto offset = static_cast<uint64_t>(found_at - stored.begin());
  return Error(
      Code::kCorrupt, "layer {} expert {}: byte {} of the store is {:#04x}, and {} is {:#04x}",
      place.layer, place.expert, index.Find(place.layer, place.expert)->offset + offset,
      static_cast<unsigned>(*found_at), container.Describe(place.layer, place.expert, offset),
      static_cast<unsigned>(*expected_at));
}

}  // namespace picchio
