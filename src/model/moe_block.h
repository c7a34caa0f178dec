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
  //
  // `next` is the next layer's, null where that has no experts. Where the cache has slots for it,
  // what that layer will probably ask for is prefetched while this one is computed: for a few rows
  // what its router makes of x as it is now, for a span that needs nearly all of a layer's experts
  // all of them.
  Status Run(StepContext& step, uint32_t layer, const LayerWeights& weights,
             const LayerWeights* next, ExpertCache& cache, float* x);

  // Spent in waiting for records, since the beginning.
  std::chrono::nanoseconds storage_wait() const { return storage_wait_; }
  // Experts that were chosen in a layer whose choice had been predicted, and those of them that the
  // prediction had named.
  uint64_t num_foreseeable() const { return num_foreseeable_; }
  uint64_t num_foreseen() const { return num_foreseen_; }

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
  // Prefetches for the layer after `layer`; x: as in Run, before what this layer adds.
  void LookAhead(StepContext& step, uint32_t layer, const LayerWeights& next, ExpertCache& cache,
                 const float* x);
  // Holds what was chosen against what was predicted.
  void JudgePrediction(uint32_t layer);
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

  // Of up to kMaxForeseenRows rows.
  float* ahead_normed_;  // [rows, hidden_size]
  float* ahead_logits_;  // [rows, num_experts]

  std::vector<int32_t> experts_;      // Chosen by any row, ascending.
  std::vector<int32_t> foreseen_;     // Of the layer after, row by row.
  std::vector<uint32_t> ahead_ids_;   // [experts_per_token]
  std::vector<float> ahead_weights_;  // [experts_per_token]
  uint32_t foreseen_layer_ = UINT32_MAX;
  uint64_t num_foreseeable_ = 0;
  uint64_t num_foreseen_ = 0;
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
