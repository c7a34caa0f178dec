// Where the time of a run went, phase by phase.
#pragma once

#include <chrono>
#include <cstdint>

#include "experts/expert_cache.h"
#include "model/forward_pass.h"

namespace picchio {

struct PhaseStats {
  uint64_t tokens = 0;  // Positions that went through the model.
  std::chrono::nanoseconds duration{0};
  StepStats step;    // Of these tokens: attention, experts, waits, head.
  CacheStats cache;  // Hits, misses, reads and bytes for them.

  double tokens_per_second() const;  // 0 where nothing ran.

  PhaseStats& operator+=(const PhaseStats& other);
};

// Measures a phase from its creation to its end: on its destruction it writes to `stats` everything
// but the tokens. All three outlive it.
class PhaseMeter {
 public:
  PhaseMeter(const ForwardPass& forward, const ExpertCache& experts, PhaseStats& stats);
  PhaseMeter(const PhaseMeter&) = delete;
  PhaseMeter& operator=(const PhaseMeter&) = delete;
  ~PhaseMeter();

 private:
  const ForwardPass& forward_;
  const ExpertCache& experts_;
  PhaseStats& stats_;
  const std::chrono::steady_clock::time_point begin_;
  const StepStats step_before_;
  const CacheStats cache_before_;
};

}  // namespace picchio
