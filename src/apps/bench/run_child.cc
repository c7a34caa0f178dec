#include "apps/bench/run_child.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "base/printable.h"
#include "io/device_file.h"

namespace picchio {
namespace {

// How soon the end of a run is seen: its figures are its own, so this costs none of them.
constexpr auto kLook = std::chrono::milliseconds(20);
constexpr uint64_t kMostOutput = uint64_t{256} << 20;

Result<Descriptor> NamelessMemory() {
  Descriptor memory(memfd_create("picchio-child", MFD_CLOEXEC));
  if (memory.number() < 0) return ErrnoError(errno, "cannot keep a run's output");
  return memory;
}

Result<std::string> WrittenTo(const Descriptor& memory) {
  return ReadFileToString(fmt::format("/proc/self/fd/{}", memory.number()), kMostOutput);
}

// What follows a usage error, whatever it was.
constexpr std::string_view kUsageHint = "Run with --help for more information.";

// The last line that is not blank and not that hint; of a progress line that was redrawn, what it
// showed last.
std::string LastLine(std::string_view text) {
  while (true) {
    const size_t end = text.find_last_not_of(" \t\r\n");
    if (end == std::string_view::npos) return {};
    text = text.substr(0, end + 1);
    const size_t begin = text.find_last_of("\r\n") + 1;  // npos + 1 is 0.
    if (text.substr(begin) != kUsageHint) return std::string(text.substr(begin));
    text = text.substr(0, begin);
  }
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Ours, and then the command's: of each name the last one alone.
std::vector<std::string> EnvironmentOf(const ChildCommand& command) {
  std::vector<std::string> given;
  for (char** ours = environ; *ours != nullptr; ++ours) given.emplace_back(*ours);
  given.insert(given.end(), command.environment.begin(), command.environment.end());
  std::map<std::string, std::string> by_name;
  for (std::string& assignment : given) {
    by_name[assignment.substr(0, assignment.find('='))] = std::move(assignment);
  }
  std::vector<std::string> all;
  all.reserve(by_name.size());
  for (auto& [name, assignment] : by_name) all.push_back(std::move(assignment));
  return all;
}

// In the child; only what is safe between fork and exec.
[[noreturn]] void Become(const char* program, char** arguments, char** environment, int out,
                         int err, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // It died before that was set.
  const int in = open("/dev/null", O_RDONLY);
  if (in >= 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
      dup2(err, STDERR_FILENO) >= 0) {
    execve(program, arguments, environment);
  }
  const char* reason = strerrordesc_np(errno);
  if (reason != nullptr && write(err, reason, std::strlen(reason)) < 0) _exit(126);
  _exit(127);
}

}  // namespace

Path ThisProgram() { return "/proc/self/exe"; }

Result<std::string> RunChild(const ChildCommand& command, const std::atomic<bool>& stop) {
  PICCHIO_ASSIGN_OR_RETURN(const Descriptor out, NamelessMemory());
  PICCHIO_ASSIGN_OR_RETURN(const Descriptor err, NamelessMemory());
  std::vector<std::string> words = {"picchio"};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<std::string> environment = EnvironmentOf(command);
  std::vector<char*> argv = Pointers(words);
  std::vector<char*> envp = Pointers(environment);
  const std::string program = command.program.string();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return ErrnoError(errno, "cannot start a run");
  if (child == 0) {
    Become(program.c_str(), argv.data(), envp.data(), out.number(), err.number(), parent);
  }
  int status = 0;
  bool told = false;
  for (pid_t ended = 0; ended != child;) {
    ended = waitpid(child, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) return ErrnoError(errno, "cannot wait for a run");
    if (ended == child) break;
    if (stop.load(std::memory_order_relaxed) && !told) {
      told = true;
      kill(child, SIGTERM);
    }
    std::this_thread::sleep_for(kLook);
  }
  if (stop.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "stopped");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return WrittenTo(out);
  std::string line = LastLine(WrittenTo(err).has_value() ? *WrittenTo(err) : std::string());
  const std::string said = line.empty() ? "it said nothing" : "it said " + Quoted(line);
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const char* name = sigabbrev_np(number);
    return Error(Code::kUnavailable, "the run was killed by signal {} (SIG{}{}); {}", number,
                 name == nullptr ? "?" : name,
                 number == SIGKILL ? ", as the system does where memory ends" : "", said);
  }
  return Error(Code::kUnavailable, "the run ended with exit code {}; {}", WEXITSTATUS(status),
               said);
}

}  // namespace picchio
