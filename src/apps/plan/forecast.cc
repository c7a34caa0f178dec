#include "apps/plan/forecast.h"

#include <algorithm>
#include <cmath>

namespace picchio {

Forecast ForecastToken(const ForecastInput& input) {
  Forecast forecast{.seconds = input.compute.total()};
  if (input.num_moe_layers == 0 || input.experts_per_token == 0) return forecast;
  const double layers = input.num_moe_layers;
  const double chosen = input.experts_per_token;
  const double miss_rate = std::clamp(1 - input.hit_rate, 0.0, 1.0);
  const double expert = input.compute.experts / layers / chosen;
  const double read = static_cast<double>(input.read_bytes) / input.bytes_per_second;
  double wait = 0;  // Of a layer.
  // The probability of m misses, from that of the one before.
  double ways = 1;
  for (uint32_t m = 0; m <= input.experts_per_token; ++m) {
    const double probability = ways * std::pow(miss_rate, m) * std::pow(1 - miss_rate, chosen - m);
    // Everything else is computed when the last record lands, or holds it up.
    if (m > 0) wait += probability * std::max(0.0, m * read - (chosen - 1) * expert);
    ways *= (chosen - m) / (m + 1);
  }
  forecast.wait = layers * wait;
  forecast.seconds += forecast.wait;
  forecast.bytes = layers * chosen * miss_rate * static_cast<double>(input.read_bytes);
  return forecast;
}

}  // namespace picchio
