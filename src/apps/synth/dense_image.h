// dense.safetensors of a synthetic model as a file whose bytes are made when they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/synth/synth_weights.h"
#include "base/file.h"
#include "base/status.h"
#include "format/safetensors.h"
#include "model/config.h"
#include "model/expected_tensors.h"

namespace picchio {

// Embedding and head are INT8, attention matrices likewise if asked for, all else is BF16. ReadAt
// cannot fail within the file, and is cheapest for whole rows.
class DenseImage final : public RandomAccessFile {
 public:
  // Borrows `weights`, which are the config's.
  static Result<std::unique_ptr<DenseImage>> Create(const ModelConfig& config, bool int8_dense,
                                                    const SynthWeights& weights);

  uint64_t size() const override { return bytes_; }
  const std::string& name() const override { return name_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;

  const std::string& header() const { return header_; }
  std::span<const TensorInfo> tensors() const { return stored_; }  // By offset.
  // Whether the tensor of that index is INT8, or has the scales of one that is.
  bool IsInt8(size_t idx) const { return made_[idx].int8; }

 private:
  // What a stored tensor is made of.
  struct Made {
    ExpectedTensor tensor;
    bool int8 = false;
    bool scales = false;
  };

  explicit DenseImage(const SynthWeights& weights) : weights_(weights) {}

  void Add(const ExpectedTensor& tensor, Dtype dtype, bool int8, bool scales);
  // Bytes of the tensor from `at` on.
  void Fill(size_t idx, uint64_t at, std::span<std::byte> out) const;
  // One row of it: of codes, of BF16, or the one scale.
  void FillRow(const Made& made, uint64_t row, std::span<float> values,
               std::span<std::byte> out) const;

  const SynthWeights& weights_;
  const std::string name_ = "the weights to be made";
  std::vector<Made> made_;  // Of stored_.
  std::vector<TensorInfo> stored_;
  std::string header_;
  uint64_t bytes_ = 0;
};

}  // namespace picchio
