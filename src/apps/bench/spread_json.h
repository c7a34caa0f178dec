// Statistics in reports for programs.
#pragma once

#include "apps/bench/sample_statistics.h"
#include "base/json.h"

namespace picchio {

Json SpreadJson(const Spread& spread);

}  // namespace picchio
