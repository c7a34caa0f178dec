// Standard input, whole, within a limit.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace picchio {

// Fails where it holds more than `max_bytes`, without reading much further.
Result<std::string> ReadStandardInput(uint64_t max_bytes);

}  // namespace picchio
