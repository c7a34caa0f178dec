// The flags of every command that runs a model, and the environment names that are their twins.
#pragma once

#include <string>

#include "apps/run/engine.h"
#include "base/status.h"

namespace CLI {
class App;
}

namespace picchio {

struct EngineFlags {
  std::string model;
  int context = 0;
  int threads = 0;
  std::string cache_gb = "auto";
  int slots_per_layer = 0;
  int prefill_span = 512;
  std::string compute = "int8";

  void AddTo(CLI::App& command);
  // Flags first, then the environment (OMP_NUM_THREADS, ECAP, IO_THREADS), then what is usual.
  Result<EngineOptions> Options() const;
};

}  // namespace picchio
