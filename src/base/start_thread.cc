#include "base/start_thread.h"

#include <system_error>
#include <utility>

namespace picchio {
namespace {

thread_local int t_allowed = -1;

}  // namespace

bool StartThread(std::vector<std::thread>& threads, std::function<void()> work) {
  if (t_allowed == 0) return false;
  // An exception is the library's only way of saying that there is no thread to be had.
  try {
    threads.emplace_back(std::move(work));
  } catch (const std::system_error&) {
    return false;
  }
  if (t_allowed > 0) --t_allowed;
  return true;
}

void LimitThreadsForTest(int allowed) { t_allowed = allowed; }

}  // namespace picchio
