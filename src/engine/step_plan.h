// Which sequences a step takes on, and by how many tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace picchio {

// A sequence that wants to go on.
struct StepCandidate {
  size_t pending = 0;      // Tokens that it has to run, at least 1.
  bool decoding = false;   // They are drawn ones; else a prompt's.
  uint64_t last_step = 0;  // The step that it was last part of; 0: none so far.
};

struct StepLimits {
  size_t max_rows = 0;  // Of all sequences together, at least 2.
  // Of prompts beside sequences that are decoding, at least 1: what bounds how long these wait for
  // their next token. By themselves prompts take max_rows: the longer the span, the fewer reads.
  size_t prefill_span = 0;
};

// How many tokens of each candidate the next step runs; 0: it waits. Every decoding sequence gets
// one, and the prompts share what is left: equally, but what a short one does not need goes to the
// longer ones, so that a short prompt never waits for a long one to end. Where there are more of
// either than rows, those go first that have waited longest, and one row at least is the prompts':
// everyone is served in the end.
std::vector<size_t> PlanStep(std::span<const StepCandidate> candidates, const StepLimits& limits);

}  // namespace picchio
