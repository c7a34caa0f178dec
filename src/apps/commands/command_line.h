// The command line: commands, their flags, their help. A thin face over CLI11, whose header costs a
// compiler more than all of a command's own code: one source includes it, not every command.
//
//   Command command = commands.Sub("pack", "Write a model's experts into an aligned store");
//   command.Option("MODEL,-m,--model", flags->model, "Folder of the model").Required();
//   command.Option("-t,--threads", flags->threads, "Threads").Check(WholeNumberFrom(1, 256));
//   command.Switch("--json", flags->json, "Report as JSON");
//   command.Run([flags] { return Pack(*flags); });
//
// What a flag is bound to must live until the command has run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/commands/flag_checks.h"
#include "base/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace picchio {

// A flag or an argument. Copies are the same flag.
class Flag {
 public:
  Flag() = default;  // One that is never given.
  Flag Required();
  Flag Check(FlagCheck check);
  Flag OneOf(const std::vector<std::string>& words);
  Flag ShowDefault();                  // In the help: the value that it is bound to has now.
  Flag Excludes(const Flag& other);    // At most one of the two is given.
  Flag OneValueEach();                 // Of a list: "--stop A --stop B", never "--stop A B".
  Flag Environment(const char* name);  // Taken from there where it is not given.
  bool given() const;

 private:
  friend class Command;
  explicit Flag(CLI::Option* option) : option_(option) {}

  CLI::Option* option_ = nullptr;
};

// A command or one of its sub-commands. Copies are the same command.
class Command {
 public:
  Command Sub(const std::string& name, const std::string& description);

  // `names` as "-n,--predict"; a name without a dash is an argument by its place. Given twice, the
  // last one counts, but for lists.
  Flag Option(const std::string& names, std::string& value, const std::string& description);
  Flag Option(const std::string& names, int& value, const std::string& description);
  Flag Option(const std::string& names, uint32_t& value, const std::string& description);
  Flag Option(const std::string& names, int64_t& value, const std::string& description);
  Flag Option(const std::string& names, uint64_t& value, const std::string& description);
  Flag Option(const std::string& names, double& value, const std::string& description);
  Flag Option(const std::string& names, std::vector<std::string>& value,
              const std::string& description);
  Flag Option(const std::string& names, std::vector<double>& value, const std::string& description);
  // Takes no value; "--yes,!--no" can be taken back.
  Flag Switch(const std::string& names, bool& value, const std::string& description);

  void Footer(const std::string& text);
  void Run(std::function<Status()> run);  // What the command does.

 private:
  friend class CommandLine;
  struct Chosen;
  Command(CLI::App* app, std::shared_ptr<Chosen> chosen) : app_(app), chosen_(std::move(chosen)) {}

  CLI::App* app_;
  std::shared_ptr<Chosen> chosen_;
};

// The whole program's.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& description, const std::string& version);
  ~CommandLine();

  Command& commands() { return root_; }

  // Reads the arguments and runs the command that they name. What is wrong with them is printed,
  // as is help that was asked for. Returns the exit code: 0 done, 1 failed, 2 wrong usage.
  int Run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  Command root_;
};

}  // namespace picchio
