// The command as its users meet it: the built program, its output, its exit codes.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "apps/progress_test_support.h"
#include "base/json.h"
#include "support/test_support.h"

namespace picchio {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

inline std::string Shell(const Path& path) { return "'" + path.string() + "'"; }

// Runs `picchio ARGUMENTS` in a shell, with no standard input unless `arguments` says where from.
inline Outcome Picchio(const std::string& arguments, const std::string& before = "") {
  TemporaryFolder folder;
  const std::string input = arguments.find('<') == std::string::npos ? " < /dev/null" : "";
  const std::string command = before + " " + Shell(BuildFile("picchio")) + " " + arguments + input +
                              " > " + Shell(folder / "out") + " 2> " + Shell(folder / "err");
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, ReadAll(folder / "out"),
          WithoutProgress(ReadAll(folder / "err"))};
}

// What a command says of how it works is no part of its messages.
inline std::string WithoutNotes(const std::string& err) {
  std::istringstream lines(err);
  std::string rest;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("note: ")) rest += line + "\n";
  }
  return rest;
}

inline Path DemoModel() { return TestData("../../models/demo"); }

// The storage part of a run's report.
inline Json StorageOf(const std::string& arguments, const std::string& environment = "") {
  const Outcome run = Picchio(
      "run " + Shell(DemoModel()) + " -p Once -n 2 --temp 0 --json " + arguments, environment);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  auto report = ParseJson(run.out, "run");
  EXPECT_OK(report);
  return (*report)["stats"]["storage"];
}

}  // namespace picchio
