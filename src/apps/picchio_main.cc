// The `picchio` command: reads the command line, runs the sub-command, turns its Status into words
// and an exit code (0 done, 1 failed, 2 wrong usage).
#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/commands/command.h"

int main(int argc, char** argv) {
  CLI::App app("Runs Mixture-of-Experts language models that are larger than memory.", "picchio");
  app.set_version_flag("--version", "picchio 0.1.0");
  app.require_subcommand(1);
  // As in every shell tool: of a flag that is given twice the last one counts.
  app.option_defaults()->take_last();
  app.footer(
      "Examples:\n"
      "  picchio convert ~/Qwen3-30B-A3B ~/models/qwen3-30b\n"
      "  picchio verify ~/models/qwen3-30b\n"
      "  picchio run ~/models/qwen3-30b -p \"Once upon a time\"\n\n"
      "picchio COMMAND --help tells about one command.");
  picchio::Invocation invocation;
  picchio::AddConvertCommand(app, invocation);
  picchio::AddVerifyCommand(app, invocation);
  picchio::AddInspectCommand(app, invocation);
  picchio::AddRunCommand(app, invocation);
  picchio::AddPerplexityCommand(app, invocation);
  picchio::AddTokenizeCommand(app, invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  const picchio::Status status = invocation.run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "picchio %s: %s\n", app.get_subcommands().front()->get_name().c_str(),
               status.message().c_str());
  return 1;
}
