// How long this machine computes on a token of a model, measured with a model of the same shape
// that has few layers and lies in memory.
#pragma once

#include <atomic>

#include "apps/plan/forecast.h"
#include "apps/plan/planned_model.h"
#include "base/status.h"

namespace picchio {

struct ComputeOptions {
  int num_threads = 1;
  bool int8_attention = false;
  uint32_t position = 0;  // In the context; attention looks back on all of it.
  double seconds = 1;     // About; at least some tokens are measured.
};

// Runs tokens one by one, all at that position, through the first two layers and a part of the
// vocabulary, experts coming from nowhere at once, and takes the medians: each layer's share times
// the number of layers, the head's by its rows. What is measured is larger than a processor's
// caches. Takes some 100 MB to 600 MB of memory, and two layers' keys and values up to the
// position; fails with kResourceExhausted where they are not free. `stop` ends it with kCancelled.
Result<ComputeTimes> MeasureCompute(const PlannedModel& model, const ComputeOptions& options,
                                    const std::atomic<bool>& stop);

}  // namespace picchio
