#include "apps/commands/bench_commands.h"
#include "apps/commands/command.h"

namespace picchio {

void AddBenchCommand(Command& commands) {
  Command bench = commands.Sub("bench", "Measure parts of a run");
  AddBenchIoCommand(bench);
  AddBenchKernelsCommand(bench);
  AddBenchCacheCommand(bench);
  AddBenchRunCommand(bench);
}

}  // namespace picchio
