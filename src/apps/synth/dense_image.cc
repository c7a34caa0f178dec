#include "apps/synth/dense_image.h"

#include <algorithm>
#include <cstring>

#include "format/float16.h"

namespace picchio {
namespace {

// Files begin their data on a page, so that a reader can use unbuffered I/O.
constexpr uint64_t kDataAlignment = 4096;

}  // namespace

Result<std::unique_ptr<DenseImage>> DenseImage::Create(const ModelConfig& config, bool int8_dense,
                                                       const SynthWeights& weights) {
  std::unique_ptr<DenseImage> image(new DenseImage(weights));
  for (const ExpectedTensor& tensor : ExpectedDenseTensors(config)) {
    const bool head =
        tensor.tensor_class == TensorClass::kEmbedding || tensor.tensor_class == TensorClass::kHead;
    const bool int8 = tensor.quantizable && (head || int8_dense);
    image->Add(tensor, int8 ? Dtype::kI8 : Dtype::kBf16, int8, false);
    if (int8) image->Add(tensor, Dtype::kF32, int8, true);
  }
  PICCHIO_ASSIGN_OR_RETURN(image->header_, MakeSafetensorsHeader(image->stored_, kDataAlignment));
  image->bytes_ = image->stored_.back().offset + image->stored_.back().bytes;
  return image;
}

void DenseImage::Add(const ExpectedTensor& tensor, Dtype dtype, bool int8, bool scales) {
  made_.push_back({tensor, int8, scales});
  if (scales) {
    stored_.push_back({.name = tensor.name + ".qs", .dtype = dtype, .shape = {tensor.shape[0]}});
  } else {
    stored_.push_back({.name = tensor.name, .dtype = dtype, .shape = tensor.shape});
  }
}

Status DenseImage::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  if (offset > bytes_ || out.size() > bytes_ - offset) {
    return Error(Code::kInvalidArgument, "{}: bytes {} to {} of {}", name_, offset,
                 offset + out.size(), bytes_);
  }
  if (offset < header_.size()) {
    const size_t part = std::min(out.size(), header_.size() - offset);
    std::memcpy(out.data(), header_.data() + offset, part);
    offset += part;
    out = out.subspan(part);
  }
  auto next = std::ranges::upper_bound(stored_, offset, {}, &TensorInfo::offset);
  for (; !out.empty(); ++next) {
    const TensorInfo& tensor = *std::prev(next);
    const uint64_t at = offset - tensor.offset;
    const size_t part = std::min<uint64_t>(out.size(), tensor.bytes - at);
    Fill(static_cast<size_t>(&tensor - stored_.data()), at, out.first(part));
    offset += part;
    out = out.subspan(part);
  }
  return Status::Ok();
}

void DenseImage::Fill(size_t idx, uint64_t at, std::span<std::byte> out) const {
  const Made& made = made_[idx];
  const uint64_t cols = made.tensor.shape.back();
  const uint64_t row_bytes = made.scales ? sizeof(float) : cols * DtypeBytes(stored_[idx].dtype);
  std::vector<float> values(cols);
  std::vector<std::byte> row(row_bytes);
  while (!out.empty()) {
    const uint64_t skipped = at % row_bytes;
    const size_t part = std::min<uint64_t>(out.size(), row_bytes - skipped);
    FillRow(made, at / row_bytes, values, row);
    std::memcpy(out.data(), row.data() + skipped, part);
    at += part;
    out = out.subspan(part);
  }
}

void DenseImage::FillRow(const Made& made, uint64_t row, std::span<float> values,
                         std::span<std::byte> out) const {
  if (!made.int8) {
    weights_.FillRow(made.tensor, row, values);
    std::ranges::transform(values, reinterpret_cast<uint16_t*>(out.data()), F32ToBf16);
    return;
  }
  const float scale = weights_.Int8Scale(made.tensor);
  if (made.scales) {
    std::memcpy(out.data(), &scale, sizeof(scale));
    return;
  }
  weights_.FillRow(made.tensor, row, values);
  std::ranges::transform(values, reinterpret_cast<int8_t*>(out.data()), [scale](float value) {
    // Rounds to the nearest whole number, in operations that every compiler makes many of at once.
    constexpr float kRound = 0x1.8p23F;
    const float code = (value / scale + kRound) - kRound;
    return static_cast<int8_t>(std::clamp(code, -127.0F, 127.0F));
  });
}

}  // namespace picchio
