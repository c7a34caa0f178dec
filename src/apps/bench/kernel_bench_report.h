// What `picchio bench kernels` says: for people and for programs.
#pragma once

#include <string>

#include "apps/bench/kernel_benchmark.h"
#include "base/json.h"

namespace picchio {

std::string KernelBenchText(const KernelBenchReport& report);
Json KernelBenchJson(const KernelBenchReport& report);

}  // namespace picchio
