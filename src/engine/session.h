// A sequence with its KV cache: prompts in, generated tokens out, one after the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/generation.h"
#include "engine/kv_sequence.h"
#include "engine/run_stats.h"
#include "experts/expert_cache.h"
#include "model/forward_pass.h"

namespace picchio {

// How far a prompt has come. Reported before each layer of each span, and once at the end.
struct PromptProgress {
  size_t positions_done = 0;   // Through all layers.
  size_t positions_total = 0;  // Those that were held already are in neither.
  size_t span_positions = 0;   // Now under way,
  uint32_t layer = 0;          // with so many of num_layers behind them.
  uint32_t num_layers = 1;

  double fraction() const;  // [0, 1]
};

// What a run calls, on its own thread, and looks at. Each may be left out.
struct RunHooks {
  std::function<void(const PromptProgress&)> on_progress{};
  // A piece of the answer, whole characters, not empty. A failure ends the run and is what it
  // returns.
  std::function<Status(std::string_view)> on_text{};
  // The logits behind the token at `position`, unmasked, [vocab_size]; for every position that is
  // run, in ascending order. Costs a product with the head for each.
  std::function<Status(uint32_t position, std::span<const float> logits)> on_logits{};
  // Once true the run ends before its next layer, or next rows of the head. May be set by a signal
  // handler.
  const std::atomic<bool>* cancel = nullptr;
};

struct RunStats {
  size_t reused_positions = 0;  // Of the prompt, held from before.
  PhaseStats prompt;
  PhaseStats decode;  // Of the tokens drawn but the first, which came of the prompt.
};

// Owner thread of the forward pass only.
class Session {
 public:
  // Borrows both, which outlive it; `experts` is the cache that `forward` computes with. Fails as
  // KvCache::Create does.
  // `between_layers` (may be empty) is called before each layer, when nobody computes with the
  // cache's records.
  static Result<Session> Create(ForwardPass& forward, const ExpertCache& experts, uint32_t context,
                                std::function<void()> between_layers = {});

  // Bytes that a session and a generation in it take beside the KV cache, at most: a row of logits,
  // what the sampler ranks, the ids of the longest context.
  static uint64_t BufferBytes(const ModelConfig& config);

  uint32_t context() const { return sequence_.context(); }
  int32_t vocab_size() const;

  // Runs the generation's prompt, in spans of the forward pass's max_rows, and then token by token
  // until the generation is over. Positions that the sequence shares with the one before are not
  // run again as far as the KV cache has them (with sliding layers: from the last turn on that both
  // share, at most); the outcome is the same to the bit. Cancelled: the
  // generation ends as such, and the call succeeds. Fails as ForwardPass::Step and
  // Generation::Accept do, or as on_logits did; the generation has then shown all that it drew but
  // what it held back, and the session can be used again.
  Result<RunStats> Generate(Generation& generation, const RunHooks& hooks);

  // Runs `ids` in an empty context and hands on the logits of positions from `first_position` on.
  // Of the hooks, on_progress and cancel; kCancelled where that was set.
  Result<PhaseStats> Score(
      std::span<const int32_t> ids, size_t first_position,
      const std::function<void(uint32_t position, std::span<const float> logits)>& receive,
      const RunHooks& hooks);

 private:
  using LogitsReceiver = FunctionRef<Status(const LogitsRow&)>;

  Session(ForwardPass& forward, const ExpertCache& experts, KvSequence sequence,
          std::function<void()> between_layers)
      : forward_(forward),
        experts_(experts),
        between_layers_(std::move(between_layers)),
        sequence_(std::move(sequence)) {}

  Status RunGeneration(Generation& generation, const RunHooks& hooks, RunStats& stats);
  // Runs the ids that sequence_ does not hold yet; hands on the logits from `first_position`.
  Status Advance(std::span<const int32_t> ids, size_t first_position, LogitsReceiver receive,
                 const RunHooks& hooks, PhaseStats& stats);

  ForwardPass& forward_;
  const ExpertCache& experts_;
  std::function<void()> between_layers_;
  KvSequence sequence_;
  std::vector<float> last_logits_;  // Of the last position that was run.
};

}  // namespace picchio
