// Which experts a text asks for, as a trace: made up by the law that synthetic models follow, or
// recorded. And how many of them a cache would have.
#pragma once

#include <cstddef>
#include <cstdint>

#include "experts/access_trace.h"
#include "format/expert_record.h"
#include "model/config.h"

namespace picchio {

// A text of so many tokens of a model whose routers follow docs/synth.md with that skew (0 to
// kMaxSkew), token after token along its walk: logits b(rank) + z, z normal with the walk's
// correlation, the greatest experts_per_token of them chosen. The same arguments give the same
// trace.
AccessTrace MakeRouting(const ModelConfig& config, const ExpertRecordLayout& layout, double skew,
                        size_t tokens);

struct HitRates {
  double whole = 0;  // Of all decode passes, from an empty cache on.
  double warm = 0;   // Of their second half.
};

// Passes before the first that asks no layer for more than top_k experts are a prompt's; all others
// are tokens of the text: so many of them.
size_t TokensOf(const AccessTrace& trace);

// Hits of the usual policy with so many slots, shared by all layers or, with `slots_per_layer`, in
// equal parts, as shares of the demands of the text's tokens; its prompt fills the cache and is not
// counted. Fails with kInvalidArgument where no token follows it that asks for any expert.
Result<HitRates> HitsOf(const AccessTrace& trace, size_t num_slots, size_t slots_per_layer = 0);

}  // namespace picchio
