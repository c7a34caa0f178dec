// The flags that say what memory and how many threads a run may have, and the environment names
// that are their twins: of every command that runs a model, and of those that plan such runs.
#pragma once

#include <string>

#include "apps/commands/command_line.h"
#include "base/status.h"
#include "engine/memory_plan.h"

namespace picchio {

struct ResourceFlags {
  int context = 0;
  int threads = 0;
  std::string cache_gb = "auto";
  int slots_per_layer = 0;
  int prefill_span = 0;

  void AddTo(Command& command);
  // A flag beats the environment (ECAP), which beats what is usual.
  Result<MemoryWishes> Memory() const;
  // Likewise (OMP_NUM_THREADS); 0: all usable CPUs.
  Result<int> Threads() const;
};

// The whole number in an environment variable; `fallback` where it is not set.
Result<int> EnvironmentNumber(const char* name, int fallback, int max);

}  // namespace picchio
