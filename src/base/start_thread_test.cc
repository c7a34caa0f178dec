#include "base/start_thread.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "support/sanitized.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TEST(StartThread, RunsTheWork) {
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  for (int i = 1; i <= 3; ++i) EXPECT_TRUE(StartThread(threads, [&sum, i] { sum += i; }));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 6);
}

TEST(StartThread, LimitForTests) {
  std::vector<std::thread> threads;
  LimitThreadsForTest(1);
  EXPECT_TRUE(StartThread(threads, [] {}));
  EXPECT_FALSE(StartThread(threads, [] {}));
  LimitThreadsForTest(-1);
  EXPECT_TRUE(StartThread(threads, [] {}));
  EXPECT_EQ(threads.size(), 2u);
  for (std::thread& thread : threads) thread.join();
}

#ifndef PICCHIO_SANITIZED  // A sanitizer needs more address space than any limit leaves.
// The system's own refusal: no address space for another stack.
TEST(StartThread, SurvivesARefusal) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{uint64_t{1} << 30, uint64_t{1} << 30};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    std::mutex mutex;
    std::condition_variable done;
    bool stop = false;
    std::vector<std::thread> threads;
    const auto wait = [&] {
      std::unique_lock lock(mutex);
      done.wait(lock, [&] { return stop; });
    };
    while (threads.size() < 1000 && StartThread(threads, wait)) {
    }
    const bool refused = threads.size() < 1000;
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    done.notify_all();
    for (std::thread& thread : threads) thread.join();
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

}  // namespace
}  // namespace picchio
