// How surprised a model is by a text.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "engine/run_stats.h"
#include "engine/session.h"

namespace picchio {

struct Perplexity {
  double nats_per_token = 0;  // The mean of -ln p(token | tokens before it in its window).
  uint64_t num_tokens = 0;    // Scored: all of the text but its first.
  PhaseStats stats;           // Positions that serve as context only are counted too.

  double value() const;  // exp(nats_per_token)
};

// Whether a text of these ids can be scored: kInvalidArgument for fewer than two tokens, ids that
// the model does not know or a context of one token.
Status CheckScorable(std::span<const int32_t> ids, uint32_t vocab_size, uint32_t context);

// Scores each token of the text but the first, once, in windows of the session's context that start
// half a context apart (token_scores.h): a text that fits the context is scored in one piece. Uses
// up what the session held. Of the hooks, on_progress and cancel count. Fails as CheckScorable and
// ForwardPass::Step do; with kCancelled.
Result<Perplexity> MeasurePerplexity(Session& session, std::span<const int32_t> ids,
                                     const RunHooks& hooks);

}  // namespace picchio
