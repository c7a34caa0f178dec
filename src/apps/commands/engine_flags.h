// The flags of every command that runs a model, and the environment names that are their twins.
#pragma once

#include <string>

#include "apps/commands/command_line.h"
#include "apps/commands/resource_flags.h"
#include "apps/run/engine.h"
#include "base/status.h"

namespace picchio {

struct EngineFlags {
  std::string model;
  ResourceFlags resources;
  std::string cache_policy;
  std::string warm_start = "on";
  std::string trace;
  std::string compute = "int8";
  std::string flat;
  bool flat_verify = false;
  bool flat_trust = false;
  std::string io = "auto";
  std::string queue_depth = "auto";
  std::string async_moe = "on";
  std::string prefetch = "auto";

  void AddTo(Command& command);
  // Flags first, then the environment (OMP_NUM_THREADS, ECAP, IO_THREADS, DIRECT, FLAT,
  // FLAT_VERIFY, ASYNC_MOE), then what is usual. What the engine has to say goes to standard error.
  Result<EngineOptions> Options() const;

 private:
  Result<StorageOptions> Storage() const;

  Flag flat_flag_;
  Flag flat_verify_flag_;
  Flag io_flag_;
  Flag async_flag_;
};

}  // namespace picchio
