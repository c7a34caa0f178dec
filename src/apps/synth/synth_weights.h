// The values of a synthetic model's weights, each part by itself, in any order, on any thread.
// docs/synth.md says why they are as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/pack/record_check.h"
#include "apps/synth/random_stream.h"
#include "apps/synth/token_walk.h"
#include "format/expert_record.h"
#include "model/config.h"
#include "model/expected_tensors.h"

namespace picchio {

// Const functions may be called from any thread. Borrows the config.
class SynthWeights {
 public:
  // `tokens`: those that generated text is to walk through.
  SynthWeights(const ModelConfig& config, std::vector<int32_t> tokens, double skew, uint64_t seed);

  // Row `row` of a dense tensor of the model: its last dimension, all of a vector.
  void FillRow(const ExpectedTensor& tensor, uint64_t row, std::span<float> out) const;

  // What a code of such a tensor stands for where it is kept as INT8: 1/24 of its root mean square,
  // so that nothing is cut off but the outermost of some millions.
  float Int8Scale(const ExpectedTensor& tensor) const {
    return static_cast<float>(RmsOf(tensor) / 24);
  }

  // An expert's record: INT4, MXFP4 or BF16, biases and the bytes between parts zero.
  void FillRecord(const ExpertRecordLayout& layout, RecordPlace place,
                  std::span<std::byte> record) const;

  const TokenWalk& walk() const { return walk_; }
  // The share of tokens that use each expert of a layer, as it is meant to be. [num_experts]
  std::vector<double> SharesOf(uint32_t layer) const;

 private:
  // Of a matrix of products.
  double RmsOf(const ExpectedTensor& tensor) const;
  // The popularity ranks of a layer's experts. [num_experts]
  std::vector<uint32_t> RanksOf(uint32_t layer) const;
  void FillRouterRow(const ExpectedTensor& tensor, uint64_t expert, std::span<float> out) const;

  const ModelConfig& config_;
  const uint64_t seed_;
  const size_t common_;  // The first coordinates of the residual stream, the same for all tokens.
  const double block_output_;         // Root mean square of what half a layer adds to the stream.
  const std::vector<double> shares_;  // By popularity rank.
  const TokenWalk walk_;
};

}  // namespace picchio
