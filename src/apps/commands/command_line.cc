#include "apps/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <new>
#include <sstream>
#include <utility>

#include "apps/standard_output.h"
#include "base/printable.h"

namespace picchio {
namespace {

// The words before the first flag name commands, as long as there are any to choose from.
Status CheckCommandNames(const CLI::App& program, int argc, const char* const* argv) {
  const CLI::App* app = &program;
  std::string so_far = program.get_name();
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    if (app->get_subcommands([](const CLI::App*) { return true; }).empty()) break;
    const auto named =
        app->get_subcommands([&](const CLI::App* command) { return command->check_name(argv[i]); });
    if (named.empty()) {
      return Error(Code::kInvalidArgument, "{}: there is no command {}: {} --help lists them",
                   so_far, Quoted(argv[i]), so_far);
    }
    app = named.front();
    so_far += " " + app->get_name();
  }
  return Status::Ok();
}

}  // namespace

Flag Flag::Required() {
  option_->required();
  return *this;
}

Flag Flag::Check(FlagCheck check) {
  option_->check(std::move(check));
  return *this;
}

Flag Flag::OneOf(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  return *this;
}

Flag Flag::ShowDefault() {
  option_->capture_default_str();
  return *this;
}

Flag Flag::Excludes(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}

Flag Flag::OneValueEach() {
  option_->allow_extra_args(false);
  return *this;
}

Flag Flag::Environment(const char* name) {
  option_->envname(name);
  return *this;
}

bool Flag::given() const { return option_ != nullptr && option_->count() > 0; }

// Set by the command that the arguments name.
struct Command::Chosen {
  std::string name;
  std::function<Status()> run;
};

Command Command::Sub(const std::string& name, const std::string& description) {
  app_->require_subcommand(1);
  return {app_->add_subcommand(name, description), chosen_};
}

Flag Command::Option(const std::string& names, std::string& value, const std::string& description) {
  return Flag(app_->add_option(names, value, description));
}

Flag Command::Option(const std::string& names, int& value, const std::string& description) {
  return Flag(app_->add_option(names, value, description));
}

Flag Command::Option(const std::string& names, uint32_t& value, const std::string& description) {
  return Flag(app_->add_option(names, value, description));
}

Flag Command::Option(const std::string& names, int64_t& value, const std::string& description) {
  return Flag(app_->add_option(names, value, description));
}

Flag Command::Option(const std::string& names, uint64_t& value, const std::string& description) {
  return Flag(app_->add_option(names, value, description));
}

Flag Command::Option(const std::string& names, double& value, const std::string& description) {
  return Flag(app_->add_option(names, value, description));
}

Flag Command::Option(const std::string& names, std::vector<std::string>& value,
                     const std::string& description) {
  return Flag(app_->add_option(names, value, description)->take_all());
}

Flag Command::Option(const std::string& names, std::vector<double>& value,
                     const std::string& description) {
  return Flag(app_->add_option(names, value, description)->take_all());
}

Flag Command::Switch(const std::string& names, bool& value, const std::string& description) {
  return Flag(app_->add_flag(names, value, description));
}

void Command::Footer(const std::string& text) { app_->footer(text); }

void Command::Run(std::function<Status()> run) {
  app_->callback([app = app_, chosen = chosen_, run = std::move(run)] {
    std::string name = app->get_name();
    for (const CLI::App* above = app->get_parent(); above != nullptr; above = above->get_parent()) {
      name.insert(0, above->get_name() + " ");
    }
    *chosen = {std::move(name), run};
  });
}

CommandLine::CommandLine(const std::string& name, const std::string& description,
                         const std::string& version)
    : app_(std::make_unique<CLI::App>(description, name)),
      root_(app_.get(), std::make_shared<Command::Chosen>()) {
  app_->set_version_flag("--version", version);
  app_->option_defaults()->take_last();  // As in every shell tool.
}

CommandLine::~CommandLine() = default;

int CommandLine::Run(int argc, char** argv) {
  Command::Chosen& chosen = *root_.chosen_;
  if (const Status known = CheckCommandNames(*app_, argc, argv); !known.ok()) {
    std::fprintf(stderr, "%s\n", known.message().c_str());
    return 2;
  }
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream help;  // Or the version.
    if (app_->exit(error, help, std::cerr) != 0) return 2;
    chosen = {app_->get_name(), [text = help.str()] { return WriteStandardOutput(text); }};
  }
  Status status;
  try {
    status = chosen.run();
  } catch (const std::bad_alloc&) {  // The library's only way of saying so.
    status = Status(Code::kResourceExhausted, "there is not enough memory: end other programs");
  }
  // What could not be written was not done.
  if (status.ok()) status = FlushStandardOutput();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", chosen.name.c_str(), status.message().c_str());
  return 1;
}

}  // namespace picchio
