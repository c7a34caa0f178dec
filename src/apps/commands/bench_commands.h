// The sub-commands of `picchio bench`.
#pragma once

#include "apps/commands/command_line.h"

namespace picchio {

void AddBenchCacheCommand(Command& bench);
void AddBenchIoCommand(Command& bench);
void AddBenchKernelsCommand(Command& bench);
void AddBenchRunCommand(Command& bench);

}  // namespace picchio
