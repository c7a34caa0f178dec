// Threads where the system may refuse more of them (RLIMIT_NPROC, a container's pids limit, memory
// for the stack).
#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace picchio {

// Adds a thread that runs `work` to `threads`; false, and nothing added, where the system has none
// to give. Whoever asks for several must do with those that it got.
bool StartThread(std::vector<std::thread>& threads, std::function<void()> work);

// For tests: from now on StartThread of this thread succeeds `allowed` times and then fails; a
// negative number lifts the limit.
void LimitThreadsForTest(int allowed);

}  // namespace picchio
