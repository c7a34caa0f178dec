// What a user may ask of the sampler, and the check that it makes sense.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace picchio {

struct LogitBias {
  int32_t id = 0;
  float bias = 0;  // Added to the token's logit before all else. -infinity: it is never drawn.
};

// The neutral values: each filter and penalty is off, and the model's own distribution is drawn
// from. docs/sampling.md says what each does and in which order.
struct SamplingParams {
  double temperature = 1;               // 0: the largest logit always wins. Not negative.
  int64_t top_k = 0;                    // 0: off. More than the vocabulary is the vocabulary.
  double top_p = 1;                     // [0, 1]; 1: off; 0 keeps the first candidate alone.
  double min_p = 0;                     // [0, 1]; 0: off.
  double repeat_penalty = 1;            // [0.01, 100]; 1: off.
  double frequency_penalty = 0;         // [-2, 2]; 0: off.
  double presence_penalty = 0;          // [-2, 2]; 0: off.
  std::vector<LogitBias> logit_bias{};  // Of an id that is listed twice, both count.
  uint64_t seed = 0;
};

// kInvalidArgument, naming the parameter, its value and what would be right, where one is out of
// its range (NaN always is) or a biased id is not in [0, vocabulary_size).
Status Validate(const SamplingParams& params, int32_t vocabulary_size);

}  // namespace picchio
