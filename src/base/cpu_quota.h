// How much CPU time the process's control groups allow it.
#pragma once

#include <optional>

#include "base/file.h"

namespace picchio {

// CPUs' worth of time: the least quota over its period among those of the process's cpu cgroup and
// its ancestors, in v1 and v2; more than 0. None where no quota is set. `root` is where "/" is, for
// tests.
std::optional<double> CpuQuota(const Path& root = "/");

}  // namespace picchio
