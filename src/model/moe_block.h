// The mixture of experts: route all rows, read each chosen expert once, apply it to its rows, add
// up in rank order.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "experts/expert_cache.h"
#include "model/dense_weights.h"
#include "model/step_context.h"

namespace picchio {

// One thread at a time.
class MoeBlock {
 public:
  // Whether records of this layout can be computed with as this config says; they come from another
  // file than the config, so anything may be wrong.
  static Status CheckLayout(const ModelConfig& config, const ExpertRecordLayout& layout);

  // Takes its working memory for steps of up to `max_rows` rows from `carver`. The layout has
  // passed CheckLayout.
  MoeBlock(const ModelConfig& config, const ExpertRecordLayout& layout, Compute compute,
           size_t max_rows, Carver& carver);

  // x: [num_rows, hidden_size], the residual stream; what the experts yield is added to it. Fails
  // as the cache's reads do, or with kCorrupt where a router logit or an expert's output is not
  // finite, naming the layer and the (lowest such) expert.
  Status Run(StepContext& step, uint32_t layer, const LayerWeights& weights, ExpertCache& cache,
             float* x);

  // Spent in waiting for records, since the beginning.
  std::chrono::nanoseconds storage_wait() const { return storage_wait_; }

 private:
  // A chosen expert's part of `slots_`.
  struct Assignment {
    size_t first_slot;
    size_t num_slots;
  };
  // Some of an expert's rows, as they are computed together with others'.
  struct Piece {
    uint32_t expert;
    WeightMatrix gate_up;
    WeightMatrix down;
    const float* gate_up_bias;
    const float* down_bias;
    size_t first_slot;
    size_t num_slots;
    size_t first_batch_row;
  };

  Status Route(StepContext& step, uint32_t layer, const LayerWeights& weights);
  void Assign(const StepContext& step);
  void AddPieces(StepContext& step, const LayerWeights& weights, const ExpertCache::Ready& ready);
  void ComputeBatch(StepContext& step);
  // The input rows of a piece: where they lie, or gathered where they do not follow each other.
  F32Rows InputRows(const Piece& piece);
  QuantizedRows QuantizedInputRows(const Piece& piece);
  void AddUp(StepContext& step, uint32_t layer, float* x);
  // Any thread.
  void NoteNotFinite(uint32_t expert);

  const ExpertRecordLayout layout_;
  const size_t num_experts_;
  const size_t experts_per_token_;
  const size_t hidden_size_;
  const size_t intermediate_size_;
  bool quantized_ = false;
  size_t max_batch_rows_;

  float* normed_;         // [max_rows, hidden_size]
  float* router_logits_;  // [max_rows, num_experts]
  uint32_t* ids_;         // [max_rows, experts_per_token], by rank
  float* weights_;        // [max_rows, experts_per_token]
  // A slot is one row's use of one expert; slots are grouped by expert.
  uint32_t* row_of_slot_;           // [max_rows * experts_per_token]
  uint32_t* slot_of_;               // [max_rows, experts_per_token]
  float* outputs_;                  // [max_rows * experts_per_token, hidden_size], by slot
  QuantizedRows quantized_normed_;  // of normed_
  // Of a batch: at most max_batch_rows_ slots.
  float* gathered_;   // [max_batch_rows_, hidden_size]
  float* gate_up_;    // [max_batch_rows_, 2 * intermediate_size]
  float* activated_;  // [max_batch_rows_, intermediate_size]
  QuantizedRows quantized_gathered_;
  QuantizedRows quantized_activated_;

  std::vector<int32_t> experts_;         // Chosen by any row, ascending.
  std::vector<Assignment> assignments_;  // Of experts_.
  std::vector<uint32_t> counts_;         // [num_experts]
  std::vector<Piece> pieces_;            // Of the current batch.
  size_t batch_rows_ = 0;
  std::vector<Product> products_;
  std::vector<float> observed_;
  std::chrono::nanoseconds storage_wait_{0};
  // The lowest expert of this layer that has yielded what is not finite; kNone so far.
  static constexpr uint32_t kNone = UINT32_MAX;
  std::atomic<uint32_t> not_finite_ = kNone;
};

}  // namespace picchio
