// dense.safetensors of a model that is not there: the tensors that a config asks for, with noise in
// them, as a file in no place. How large the weights are, and how long their products take, does
// not depend on their values.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "format/safetensors.h"
#include "format/tensor_directory.h"
#include "model/config.h"

namespace picchio {

// Which of the matrices are INT8 with a scale per row; all other tensors are BF16.
struct DenseTypes {
  bool int8_head = true;  // Embedding and head.
  bool int8_attention = false;
};

class StandInWeights final : public RandomAccessFile {
 public:
  static Result<std::unique_ptr<StandInWeights>> Create(const ModelConfig& config,
                                                        DenseTypes types);

  uint64_t size() const override { return bytes_; }
  const std::string& name() const override { return name_; }
  // Cheap and the same every time. Norms are 1, biases 0, matrices noise of small finite values.
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;

 private:
  void Fill(const TensorInfo& tensor, uint64_t at, std::span<std::byte> out) const;

  const std::string name_ = "stand-in weights";
  std::vector<TensorInfo> tensors_;  // By offset.
  std::string header_;
  uint64_t bytes_ = 0;
};

// That file as what a model is loaded from.
Result<TensorDirectory> StandInDirectory(const ModelConfig& config, DenseTypes types);

}  // namespace picchio
