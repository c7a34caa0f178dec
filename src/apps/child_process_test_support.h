// The built `picchio` in a process of its own, for what really happens to processes.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
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

  // Holds it where it is until a SIGCONT; false where it has ended.
  bool Stop() const {
    Signal(SIGSTOP);
    siginfo_t info{};
    return pid_ > 0 &&
           waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WSTOPPED | WNOWAIT) == 0 &&
           info.si_code == CLD_STOPPED;
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

// Runs the command again and again and kills it at a random moment of the time that it takes, until
// it has been killed so often while it was at work. before(attempt) prepares each run, after()
// looks at what it has left. False where it would not be killed, or something is amiss already.
inline bool KillAtRandomMoments(const std::vector<std::string>& arguments, int kills, uint32_t seed,
                                const std::function<void(int attempt)>& before,
                                const std::function<void()>& after) {
  using std::chrono::microseconds;
  before(0);
  const auto start = std::chrono::steady_clock::now();
  if (ChildProcess(arguments).Wait() != 0) return false;
  auto duration =
      std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - start);
  std::mt19937 random(seed);
  for (int attempt = 1, killed = 0; killed < kills; ++attempt) {
    if (attempt > 20 * kills) return false;
    before(attempt);
    ChildProcess child(arguments);
    std::this_thread::sleep_for(
        microseconds(random() % static_cast<uint64_t>(duration.count() * 11 / 10)));
    if (child.Kill()) {
      ++killed;
    } else {  // It is quicker than when it was measured.
      duration = std::max(duration * 3 / 4, microseconds(1));
    }
    after();
    if (testing::Test::HasFatalFailure()) return false;
  }
  return true;
}

// The number of kills: more are for a run by hand.
inline int KillsWanted(int usual) {
  const char* wanted = std::getenv("PICCHIO_KILLS");
  return wanted == nullptr ? usual : std::atoi(wanted);
}

}  // namespace picchio
