// The forward pass over sequences: tokens in, logits out.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "experts/expert_cache.h"
#include "kernels/kernels.h"
#include "model/attention_block.h"
#include "model/dense_mlp.h"
#include "model/kv_cache.h"
#include "model/model.h"
#include "model/moe_block.h"
#include "model/step_context.h"
#include "model/step_observer.h"

namespace picchio {

enum class LogitsWanted : uint8_t { kNone, kLast, kAll };

struct SequenceInput {
  KvCache* kv = nullptr;            // Where the sequence stands; each at most once in a step.
  std::span<const int32_t> tokens;  // At least one.
  LogitsWanted logits = LogitsWanted::kLast;
  // Once true the sequence leaves the step before its next layer, and does not move on; the others
  // go on as if it had not been there. Set at the very end it is not seen any more: the length of
  // the cache tells. Any thread may set it. Null: stays.
  const std::atomic<bool>* leave = nullptr;
};

struct LogitsRow {
  size_t sequence_idx = 0;
  uint32_t position = 0;    // Of the token that they follow.
  std::span<float> logits;  // [vocab_size], finite. The receiver may write to them.
};

// Spent since the forward pass was created.
struct StepStats {
  std::chrono::nanoseconds attention{0};
  std::chrono::nanoseconds mlp{0};           // Router, experts and dense MLPs.
  std::chrono::nanoseconds storage_wait{0};  // Waiting for expert records with nothing to compute.
  std::chrono::nanoseconds head{0};          // Final norm and logits, the receiver excluded.
  std::chrono::nanoseconds total{0};         // Of all steps, whatever they did.
  uint64_t steps = 0;
  uint64_t rows = 0;
  // Experts chosen where they had been predicted, and those that the prediction had named.
  uint64_t foreseeable = 0;
  uint64_t foreseen = 0;
};

// Runs steps for one model over one expert cache. The logits of a token depend on the model, on the
// tokens before it in its sequence and on the compute, to the bit: not on threads, spans, the
// company of other sequences, the cache or the order in which records come. Owner thread only.
class ForwardPass {
 public:
  struct Options {
    size_t max_rows = 512;  // Tokens of all sequences of a step together; at least 1.
    Compute compute = Compute::kInt8;
    const Kernels* kernels = nullptr;  // Null: the fastest.
  };

  // Bytes of working memory that Create will allocate.
  static uint64_t WorkingBytes(const ModelConfig& config, const ExpertRecordLayout& layout,
                               const Options& options, int num_threads);

  // Borrows all three, which outlive it. Fails where the cache's records are not this model's, or
  // the working memory cannot be had (kResourceExhausted, with the figure).
  static Result<std::unique_ptr<ForwardPass>> Create(const Model& model, ExpertCache& experts,
                                                     ThreadPool& pool, const Options& options);
  ForwardPass(const ForwardPass&) = delete;
  ForwardPass& operator=(const ForwardPass&) = delete;

  // Takes each sequence on by its tokens, in one pass through the layers, and hands the wanted
  // logits to `receive`, sequence by sequence, in order of position; a failure of it ends the step.
  // `before_layer` is asked before each layer, with its index, and, with the number of layers,
  // between blocks of rows of the head; it may end the step with a Status, as when somebody has
  // stopped the run. Fails with kInvalidArgument for tokens outside the
  // vocabulary, none at all, more than max_rows or than a cache has room for; kCorrupt, naming the
  // layer, where a value is not finite; as the expert cache does. No sequence has then moved on.
  Status Step(std::span<const SequenceInput> sequences,
              FunctionRef<Status(const LogitsRow&)> receive,
              FunctionRef<Status(uint32_t)> before_layer, StepObserver* observer = nullptr);
  Status Step(std::span<const SequenceInput> sequences,
              FunctionRef<Status(const LogitsRow&)> receive);

  const Model& model() const { return model_; }
  const Options& options() const { return options_; }
  StepStats stats() const;

 private:
  // What lies in the working memory, apart from the blocks' own.
  struct Buffers {
    Buffers(const ModelConfig& config, size_t max_rows, Carver& carver);

    float* hidden;       // [max_rows, hidden_size]: the residual stream.
    float* added;        // [max_rows, hidden_size]: what attention adds to it.
    float* head_normed;  // [kHeadRows, hidden_size]
    float* logits;       // [kHeadRows, vocab_size]
  };
  // Rows that go through the head together: its weights, the largest matrix, are read once for all.
  static constexpr size_t kHeadRows = 16;

  ForwardPass(const Model& model, ExpertCache& experts, ThreadPool& pool, const Options& options,
              AlignedBuffer memory, Carver carver);

  Status CheckInput(std::span<const SequenceInput> sequences) const;
  void Embed(std::span<const SequenceInput> sequences);
  // Lets go of the sequences that want to leave, and moves the rows of the others together.
  void DropLeaving(std::span<const SequenceInput> sequences);
  Status RunLayer(uint32_t layer);
  Status CheckFinite(uint32_t layer) const;
  Status RunHead(std::span<const SequenceInput> sequences,
                 FunctionRef<Status(const LogitsRow&)> receive,
                 FunctionRef<Status(uint32_t)> before_layer);

  const Model& model_;
  ExpertCache& experts_;
  const Options options_;
  const AlignedBuffer memory_;
  const Buffers buffers_;
  AttentionBlock attention_;
  MoeBlock moe_;
  DenseMlp dense_mlp_;
  StepContext step_;
  std::vector<size_t> wanted_;  // Rows whose logits are wanted.
  StepStats stats_;
};

}  // namespace picchio
