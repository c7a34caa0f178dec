// How a sub-command of `picchio` is made: it adds itself, its flags and its examples to the parser
// and leaves a function that does the work.
#pragma once

#include <functional>

#include "base/status.h"

namespace CLI {
class App;
}

namespace picchio {

// What to run once the command line has been read; set by the sub-command that was named.
struct Invocation {
  std::function<Status()> run;
};

void AddConvertCommand(CLI::App& app, Invocation& invocation);
void AddDiffCommand(CLI::App& app, Invocation& invocation);
void AddPackCommand(CLI::App& app, Invocation& invocation);
void AddVerifyCommand(CLI::App& app, Invocation& invocation);
void AddInspectCommand(CLI::App& app, Invocation& invocation);
void AddPerplexityCommand(CLI::App& app, Invocation& invocation);
void AddRunCommand(CLI::App& app, Invocation& invocation);
void AddTokenizeCommand(CLI::App& app, Invocation& invocation);

}  // namespace picchio
