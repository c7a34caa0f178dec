// The commands of `picchio`: each adds its name, flags and examples and what it does.
#pragma once

#include "apps/commands/command_line.h"

namespace picchio {

void AddBenchCommand(Command& commands);
void AddConvertCommand(Command& commands);
void AddDiffCommand(Command& commands);
void AddDoctorCommand(Command& commands);
void AddPackCommand(Command& commands);
void AddVerifyCommand(Command& commands);
void AddInspectCommand(Command& commands);
void AddPerplexityCommand(Command& commands);
void AddPlanCommand(Command& commands);
void AddRunCommand(Command& commands);
void AddSynthCommand(Command& commands);
void AddTokenizeCommand(Command& commands);

}  // namespace picchio
