// One run of a program in a process of its own, whose output is kept.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

struct ChildCommand {
  Path program{};
  std::vector<std::string> arguments{};    // Without the program's name.
  std::vector<std::string> environment{};  // "NAME=VALUE" each, over this process's own.
};

// The program that is running now.
Path ThisProgram();

// Runs it to its end, with nothing on its standard input, and returns what it wrote to standard
// output. Fails, in one sentence with the last line that it wrote to standard error, where it
// cannot be started, exits with another code than 0, or is killed (kUnavailable), which it is when
// this process dies; with kCancelled where `stop` was set, once it has ended.
Result<std::string> RunChild(const ChildCommand& command, const std::atomic<bool>& stop);

}  // namespace picchio
