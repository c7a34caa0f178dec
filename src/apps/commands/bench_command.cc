#include "apps/commands/bench_commands.h"
#include "apps/commands/command.h"

namespace picchio {

void AddBenchCommand(Command& commands) {
  Command bench = commands.Sub("bench", "Measure parts of a run");
  bench.Footer(
      "Examples:\n"
      "  picchio bench io ~/models/qwen3-30b/experts.picchioflat\n"
      "  picchio bench kernels\n"
      "  picchio bench run ~/models/qwen3-30b --a \"--io buffered\" --b \"--io uring\"\n\n"
      "picchio bench WHAT --help tells about one of them.");
  AddBenchIoCommand(bench);
  AddBenchKernelsCommand(bench);
  AddBenchCacheCommand(bench);
  AddBenchRunCommand(bench);
}

}  // namespace picchio
