// One generation as a state: what the model has to run next, what it produced, when it is over.
//
// It knows nothing of the model. Whoever runs steps asks each generation for its next positions,
// and gives it the row of logits behind the last one; so one loop serves a single prompt as well as
// a server's many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/sampler.h"
#include "engine/sampling_params.h"
#include "engine/stop_strings.h"
#include "engine/token_logprobs.h"
#include "engine/token_mask.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"

namespace picchio {

// Says which tokens may come next, behind those that were generated so far. `allowed` allows none;
// the call allows those that may be drawn, stop ids among them where the text may end. Made before
// each draw, on the thread that draws. A failure of it is what the draw fails with.
using TokenConstraint =
    std::function<Status(std::span<const int32_t> generated, TokenMask& allowed)>;

struct GenerationOptions {
  SamplingParams sampling{};
  // Absent, or more than the context has room for: as many as it has room for. 0: the prompt is run
  // and nothing is drawn.
  std::optional<uint64_t> max_tokens{};
  std::vector<int32_t> stop_ids{};  // Each ends the generation; its own text is not shown.
  std::vector<std::string> stop_strings{};
  // With each token its log probability, and those of so many of the likeliest.
  std::optional<uint32_t> top_logprobs{};
  TokenConstraint constraint{};  // Empty: any.
};

enum class FinishReason : uint8_t {
  kNone,        // Not over yet.
  kStopId,      // The model ended it.
  kStopString,  // A stop string came up.
  kMaxTokens,   // As many tokens as were asked for.
  kContext,     // The context is full.
  kCancelled,
  kTimeLimit,  // Of a scheduler's request: it took longer than it was given.
  kFailed,     // Alike: see the Status.
};

std::string_view FinishReasonName(FinishReason reason);  // "stop_id", "max_tokens", ...

// One thread at a time.
class Generation {
 public:
  // prompt: the whole sequence so far. vocab_size: the rows of the model's head. context: positions
  // that the sequence may have, generated ones included. tokenizer: outlives this; nullptr where
  // only ids are wanted. kInvalidArgument where the prompt is empty, has an id that the model does
  // not know, or leaves no room for a token to be drawn; where a sampling parameter or stop string
  // makes no sense, or where there are stop strings and no tokenizer.
  static Result<Generation> Create(std::vector<int32_t> prompt, GenerationOptions options,
                                   int32_t vocab_size, uint32_t context,
                                   const Tokenizer* tokenizer);

  // All tokens: the prompt's, then the generated ones (a stop id among them).
  std::span<const int32_t> ids() const { return ids_; }
  std::span<const int32_t> generated() const { return ids().subspan(num_prompt_ids_); }
  size_t num_prompt_ids() const { return num_prompt_ids_; }

  // Draws the token behind the last of ids() from the model's logits there, [vocab_size], and
  // returns the text that may now be shown: whole characters, nothing of a stop string, often
  // empty. Not to be called once finished. Fails as Sampler::Sample and the constraint do.
  Result<std::string> Accept(std::span<const float> logits);

  // Of the last token drawn, where the options ask for it. The padding of the head counts for
  // nothing.
  const std::optional<TokenLogprobs>& last_logprobs() const { return last_logprobs_; }

  // Ends a generation that is not over; returns the text that was held back. Safe at any time.
  std::string Cancel();

  bool finished() const { return reason_ != FinishReason::kNone; }
  FinishReason reason() const { return reason_; }
  // The stop string that was found; empty if none.
  const std::string& matched_stop_string() const { return stop_strings_.matched(); }

 private:
  Generation(std::vector<int32_t> prompt, GenerationOptions options, Sampler sampler,
             StopStringMatcher stop_strings, const Tokenizer* tokenizer);

  Result<int32_t> Draw(std::span<const float> logits);
  std::string Flush();

  std::vector<int32_t> ids_;
  size_t num_prompt_ids_;
  size_t max_ids_ = 0;              // Of ids_, when the last token has been drawn.
  bool ends_with_context_ = false;  // max_ids_ is the context's, not the user's.
  GenerationOptions options_;
  Sampler sampler_;
  StopStringMatcher stop_strings_;
  std::optional<StreamDecoder> decoder_;
  std::optional<TokenMask> allowed_;  // Where there is a constraint; kept for its memory alone.
  std::optional<TokenLogprobs> last_logprobs_;
  FinishReason reason_ = FinishReason::kNone;
};

}  // namespace picchio
