// The `picchio` command: reads the command line, runs the sub-command, turns its Status into words
// and an exit code (0 done, 1 failed, 2 wrong usage).
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "apps/commands/command.h"
#include "apps/standard_output.h"

namespace {

// A file that is opened while a standard descriptor is closed would take its number, and what is
// printed would be written into it: give each closed one to /dev/null, input and output the wrong
// way round, so that using them still fails.
void OpenStandardDescriptors() {
  while (true) {
    // The lowest number that is free tells which one it will be.
    int descriptor = open("/dev/null", O_WRONLY);
    if (descriptor == STDOUT_FILENO) {
      close(descriptor);
      descriptor = open("/dev/null", O_RDONLY);
    }
    if (descriptor < 0) return;
    if (descriptor > STDERR_FILENO) {
      close(descriptor);
      return;
    }
  }
}

int RunCommandLine(int argc, char** argv) {
  CLI::App app("Runs Mixture-of-Experts language models that are larger than memory.", "picchio");
  app.set_version_flag("--version", "picchio " PICCHIO_VERSION);
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
  picchio::AddPackCommand(app, invocation);
  picchio::AddVerifyCommand(app, invocation);
  picchio::AddDiffCommand(app, invocation);
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
  const std::string command = app.get_subcommands().front()->get_name();
  picchio::Status status = invocation.run();
  // What could not be written was not done.
  if (status.ok()) status = picchio::FlushStandardOutput();
  if (status.ok()) return 0;
  std::fprintf(stderr, "picchio %s: %s\n", command.c_str(), status.message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  OpenStandardDescriptors();
  // A file size limit then fails the write, which says so, instead of killing the process.
  std::signal(SIGXFSZ, SIG_IGN);
  // The same for a reader of our output that has gone.
  std::signal(SIGPIPE, SIG_IGN);
  // Our own code does not throw; memory or threads that cannot be had make the libraries do so.
  try {
    return RunCommandLine(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("picchio: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "picchio: %s\n", error.what());
  }
  return 1;
}
