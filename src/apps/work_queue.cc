#include "apps/work_queue.h"

#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/start_thread.h"

namespace picchio {
namespace {

// The library throws where it has no memory; out of a thread that would end the process, and what
// is half-written would stay.
Status Guarded(const std::function<Status(size_t, int)>& work, size_t item, int thread_idx) {
  try {
    return work(item, thread_idx);
  } catch (const std::bad_alloc&) {
    return Status(Code::kResourceExhausted,
                  "there is not enough memory: use fewer threads, or end other programs");
  } catch (const std::exception& exception) {
    return Error(Code::kResourceExhausted, "the system has not given what was needed: {}",
                 exception.what());
  }
}

}  // namespace

Status RunOnThreads(int num_threads, size_t num_items,
                    const std::function<Status(size_t item_idx, int thread_idx)>& work) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  size_t failed_item = num_items;  // Guarded by mutex, like `failure`.
  Status failure;
  const auto run = [&](int thread_idx) {
    while (!failed.load(std::memory_order_relaxed)) {
      const size_t item = next.fetch_add(1, std::memory_order_relaxed);
      if (item >= num_items) return;
      Status status = Guarded(work, item, thread_idx);
      if (status.ok()) continue;
      failed = true;
      const std::lock_guard lock(mutex);
      if (item < failed_item) {
        failed_item = item;
        failure = std::move(status);
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < num_threads; ++i) {
    if (StartThread(threads, [&run, i] { run(i); })) continue;
    std::fprintf(stderr, "note: the system gives only %d of %d threads; it will take longer\n", i,
                 num_threads);
    break;
  }
  run(0);
  for (std::thread& thread : threads) thread.join();
  return failure;
}

}  // namespace picchio
