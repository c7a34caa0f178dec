// How long a token will take: arithmetic alone, on what was measured and simulated.
#pragma once

#include <cstdint>

namespace picchio {

// Seconds that one token computes, by where: all layers together.
struct ComputeTimes {
  double attention = 0;
  double experts = 0;  // Routers, and the chosen experts, all of them in memory.
  double head = 0;     // With what else a step does once.

  double total() const { return attention + experts + head; }
};

struct ForecastInput {
  uint32_t num_moe_layers = 0;
  uint32_t experts_per_token = 0;
  uint64_t read_bytes = 0;  // Of a record as it is read.
  double hit_rate = 0;      // Of demands, 0 to 1.
  double bytes_per_second = 0;
  ComputeTimes compute{};
};

struct Forecast {
  double seconds = 0;  // A token.
  double wait = 0;     // Of them, for storage with nothing to compute.
  double bytes = 0;    // Read for a token.

  double tokens_per_second() const { return seconds > 0 ? 1 / seconds : 0; }
  double wait_share() const { return seconds > 0 ? wait / seconds : 0; }
};

// A layer computes attention and routes; reads what it misses, all at once, and computes meanwhile
// what it has; and then the expert that landed last. How many of its experts a layer misses is
// binomial, each with 1 - hit_rate.
Forecast ForecastToken(const ForecastInput& input);

}  // namespace picchio
