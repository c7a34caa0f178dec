// The built `picchio` in a process of its own, for what really happens to processes.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "apps/progress_test_support.h"
#include "support/test_support.h"

namespace picchio {

class ChildProcess {
 public:
  // `prepare` runs in the child, and may only do what is safe after a fork.
  explicit ChildProcess(
      const std::vector<std::string>& arguments, const std::function<void()>& prepare = [] {}) {
    const std::string program = BuildFile("picchio").string();
    const std::string streams[] = {(streams_ / "out").string(), (streams_ / "err").string()};
    std::vector<char*> argv = {const_cast<char*>("picchio")};
    for (const std::string& argument : arguments) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    for (int stream : {STDOUT_FILENO, STDERR_FILENO}) {
      const int file = open(streams[stream - 1].c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      if (dup2(file, stream) < 0) _exit(100);
    }
    prepare();
    execv(program.c_str(), argv.data());
    _exit(101);
  }
  ~ChildProcess() { Kill(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // The exit code, or -1 where a signal ended it.
  int Wait() {
    int status = 0;
    if (pid_ > 0) waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  bool running() const {
    if (pid_ <= 0) return false;
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
  }

  void Signal(int signal_number) const {
    if (pid_ > 0) kill(pid_, signal_number);
  }

  // True where it was still running.
  bool Kill() {
    if (pid_ <= 0) return false;
    kill(pid_, SIGKILL);
    return Wait() == -1;
  }

  std::string out() const { return ReadAll(streams_ / "out"); }
  std::string err() const { return WithoutProgress(ReadAll(streams_ / "err")); }

 private:
  TemporaryFolder streams_;
  pid_t pid_ = -1;
};

}  // namespace picchio
