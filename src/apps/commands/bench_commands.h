// The sub-commands of `picchio bench`.
#pragma once

#include "apps/commands/command_line.h"

namespace picchio {

void AddBenchCacheCommand(Command& bench);

}  // namespace picchio
