#include "engine/perplexity.h"

#include <cmath>
#include <vector>

#include "engine/token_scores.h"

namespace picchio {

double Perplexity::value() const { return std::exp(nats_per_token); }

Status CheckScorable(std::span<const int32_t> ids, uint32_t vocab_size, uint32_t context) {
  if (ids.size() < 2) {
    return Error(Code::kInvalidArgument,
                 "the text has {} tokens, expected at least 2: the first is not predicted",
                 ids.size());
  }
  if (context < 2) {
    return Error(Code::kInvalidArgument, "the context is {}, expected at least 2 to score a text",
                 context);
  }
  // The model checks what it is fed, but an id is scored before it is fed, or never is.
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && static_cast<uint32_t>(ids[i]) < vocab_size) continue;
    return Error(Code::kInvalidArgument,
                 "the text's id at position {} is {}, but the model's ids are 0 to {}", i, ids[i],
                 vocab_size - 1);
  }
  return Status::Ok();
}

Result<Perplexity> MeasurePerplexity(Session& session, std::span<const int32_t> ids,
                                     const RunHooks& hooks) {
  PICCHIO_RETURN_IF_ERROR(
      CheckScorable(ids, static_cast<uint32_t>(session.vocab_size()), session.context()));
  const std::vector<ScoredWindow> windows = WindowsOver(ids.size(), session.context());
  size_t total_positions = 0;
  for (const ScoredWindow& window : windows) total_positions += window.end - window.begin;

  Perplexity result;
  double sum = 0;
  for (const ScoredWindow& window : windows) {
    RunHooks window_hooks{.cancel = hooks.cancel};
    if (hooks.on_progress) {
      window_hooks.on_progress = [&](PromptProgress progress) {
        progress.positions_done += result.stats.tokens;
        progress.positions_total = total_positions;
        hooks.on_progress(progress);
      };
    }
    const auto score = [&](uint32_t position, std::span<const float> logits) {
      const size_t target = window.begin + position + 1;
      if (target < window.end) sum += NegativeLogLikelihood(logits, ids[target]);
    };
    PICCHIO_ASSIGN_OR_RETURN(
        const PhaseStats stats,
        session.Score(ids.subspan(window.begin, window.end - window.begin),
                      window.first_scored - 1 - window.begin, score, window_hooks));
    result.stats += stats;
    result.num_tokens += window.end - window.first_scored;
  }
  result.nats_per_token = sum / static_cast<double>(result.num_tokens);
  return result;
}

}  // namespace picchio
