// What is asked of a scheduler, and what it says as it goes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/generation.h"

namespace picchio {

using RequestId = uint64_t;  // Never 0, never used twice.

struct ServedRequest {
  std::vector<int32_t> prompt;
  // One answer for each, all from one pass of the prompt; at least one. Seeds and constraints may
  // differ, as everything else.
  std::vector<GenerationOptions> choices = std::vector<GenerationOptions>(1);
  // From Submit on, the time in the queue included. Absent: as long as it takes.
  std::optional<std::chrono::milliseconds> time_limit{};
};

struct GenerationEnd {
  FinishReason reason = FinishReason::kNone;
  Status status{};            // Of kFailed: why, in words for a user. Else OK.
  std::string stop_string{};  // The one that was found; empty if none.
  size_t prompt_tokens = 0;
  size_t reused_tokens = 0;  // Of the prompt, held from before.
  size_t generated_tokens = 0;
  // Since Submit: until its prompt began to run, until its first token, until now; 0 where it did
  // not come to that.
  std::chrono::nanoseconds queued{0};
  std::chrono::nanoseconds first_token{0};
  std::chrono::nanoseconds total{0};
};

// One token of one choice, or the end of it, or both. The texts of a choice's events make up its
// answer: a piece is whole characters, nothing of a stop string, and often empty, as text is held
// back that may belong to either.
struct GenerationEvent {
  uint32_t choice = 0;  // Index in the request's.
  std::optional<int32_t> token{};
  std::string text{};
  std::optional<TokenLogprobs> logprobs{};  // Of the token, where the options ask for them.
  std::optional<GenerationEnd> end{};       // The choice's last event.
  bool last = false;                        // The request's last event.
};

// Called on the thread that runs steps, which waits for it: it hands the event on and returns.
// Each choice of a request that was accepted has exactly one event with an end.
using EventSink = std::function<void(GenerationEvent)>;

}  // namespace picchio
