#include "apps/plan/stand_in_weights.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "model/expected_tensors.h"

namespace picchio {
namespace {

constexpr uint64_t kDataAlignment = 4096;
// Of an INT8 row: codes of up to 127 then stand for values of up to 0.06.
constexpr float kScale = 0x1p-11f;
constexpr uint16_t kBf16One = 0x3f80;

// Any bits, from a place (a multiple of 8) in the file: SplitMix64.
uint64_t NoiseAt(uint64_t place) {
  uint64_t z = (place + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// The 8 bytes of a tensor from its byte `at` on, a multiple of 8.
uint64_t WordOf(const TensorInfo& tensor, uint64_t at) {
  constexpr uint64_t kFour = 0x0001000100010001U;
  switch (tensor.dtype) {
    case Dtype::kI8:
      return NoiseAt(tensor.offset + at) | 0x0101010101010101U;  // Never -128.
    case Dtype::kF32: {
      uint32_t bits = 0;
      std::memcpy(&bits, &kScale, sizeof(bits));
      return uint64_t{bits} << 32 | bits;
    }
    default:
      if (tensor.shape.size() > 1) {
        // Either sign, 2^-5 to 2^-4.
        return (NoiseAt(tensor.offset + at) & 0x807f * kFour) | 0x3d00 * kFour;
      }
      return tensor.name.ends_with("norm.weight") ? kBf16One * kFour : 0;
  }
}

}  // namespace

Result<std::unique_ptr<StandInWeights>> StandInWeights::Create(const ModelConfig& config,
                                                               DenseTypes types) {
  std::unique_ptr<StandInWeights> weights(new StandInWeights);
  for (const ExpectedTensor& tensor : ExpectedDenseTensors(config)) {
    const bool head =
        tensor.tensor_class == TensorClass::kEmbedding || tensor.tensor_class == TensorClass::kHead;
    const bool int8 = tensor.quantizable && (head ? types.int8_head : types.int8_attention);
    weights->tensors_.push_back(
        {.name = tensor.name, .dtype = int8 ? Dtype::kI8 : Dtype::kBf16, .shape = tensor.shape});
    if (int8) {
      weights->tensors_.push_back(
          {.name = tensor.name + ".qs", .dtype = Dtype::kF32, .shape = {tensor.shape[0]}});
    }
  }
  PICCHIO_ASSIGN_OR_RETURN(weights->header_,
                           MakeSafetensorsHeader(weights->tensors_, kDataAlignment));
  weights->bytes_ = weights->tensors_.back().offset + weights->tensors_.back().bytes;
  return weights;
}

Status StandInWeights::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  if (offset > bytes_ || out.size() > bytes_ - offset) {
    return Error(Code::kInvalidArgument, "{}: bytes {} to {} of {}", name_, offset,
                 offset + out.size(), bytes_);
  }
  while (!out.empty()) {
    uint64_t end = header_.size();
    if (offset < end) {
      const size_t part = std::min<uint64_t>(out.size(), end - offset);
      std::memcpy(out.data(), header_.data() + offset, part);
      offset += part;
      out = out.subspan(part);
      continue;
    }
    const auto next = std::ranges::upper_bound(tensors_, offset, {}, &TensorInfo::offset);
    const TensorInfo& tensor = *std::prev(next);
    end = next == tensors_.end() ? bytes_ : next->offset;
    const size_t part = std::min<uint64_t>(out.size(), end - offset);
    Fill(tensor, offset - tensor.offset, out.first(part));
    offset += part;
    out = out.subspan(part);
  }
  return Status::Ok();
}

void StandInWeights::Fill(const TensorInfo& tensor, uint64_t at, std::span<std::byte> out) const {
  while (!out.empty()) {
    const uint64_t skipped = at % sizeof(uint64_t);
    const uint64_t word = WordOf(tensor, at - skipped);
    const size_t part = std::min<uint64_t>(out.size(), sizeof(word) - skipped);
    std::memcpy(out.data(), reinterpret_cast<const std::byte*>(&word) + skipped, part);
    at += part;
    out = out.subspan(part);
  }
}

Result<TensorDirectory> StandInDirectory(const ModelConfig& config, DenseTypes types) {
  std::vector<TensorDirectory::NamedFile> files(1);
  files[0].name = "stand-in.safetensors";
  PICCHIO_ASSIGN_OR_RETURN(files[0].file, StandInWeights::Create(config, types));
  return TensorDirectory::FromFiles(std::move(files));
}

}  // namespace picchio
