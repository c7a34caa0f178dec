// The `picchio` command: what every command needs, and which commands there are.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "apps/commands/command.h"

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
  picchio::CommandLine line("picchio",
                            "Runs Mixture-of-Experts language models that are larger than memory.",
                            "picchio " PICCHIO_VERSION);
  picchio::Command& commands = line.commands();
  commands.Footer(
      "Examples:\n"
      "  picchio convert ~/Qwen3-30B-A3B ~/models/qwen3-30b\n"
      "  picchio verify ~/models/qwen3-30b\n"
      "  picchio run ~/models/qwen3-30b -p \"Once upon a time\"\n\n"
      "picchio COMMAND --help tells about one command.");
  picchio::AddConvertCommand(commands);
  picchio::AddPackCommand(commands);
  picchio::AddVerifyCommand(commands);
  picchio::AddDiffCommand(commands);
  picchio::AddInspectCommand(commands);
  picchio::AddRunCommand(commands);
  picchio::AddPerplexityCommand(commands);
  picchio::AddPlanCommand(commands);
  picchio::AddBenchCommand(commands);
  picchio::AddSynthCommand(commands);
  picchio::AddTokenizeCommand(commands);
  picchio::AddDoctorCommand(commands);
  return line.Run(argc, argv);
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
