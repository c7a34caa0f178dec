#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/check.h"
#include "base/cpu_quota.h"
#include "base/start_thread.h"

namespace picchio {
int UsableCpus() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) cpus = CPU_COUNT(&mask);
  const double quota = std::ceil(CpuQuota().value_or(cpus));
  return std::max(1, quota < cpus ? static_cast<int>(quota) : cpus);
}

void EnableDenormals() {
#if defined(__x86_64__)
  constexpr unsigned kFlushToZero = 0x8000;
  constexpr unsigned kDenormalsAreZero = 0x0040;
  _mm_setcsr(_mm_getcsr() & ~(kFlushToZero | kDenormalsAreZero));
#elif defined(__aarch64__)
  constexpr uint64_t kFlushToZero = uint64_t{1} << 24;
  uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  asm volatile("msr fpcr, %0" ::"r"(fpcr & ~kFlushToZero));
#endif
}

ThreadPool::ThreadPool(int num_threads) {
  PICCHIO_CHECK(num_threads >= 1);
  EnableDenormals();
  workers_.reserve(static_cast<size_t>(num_threads - 1));
  for (int i = 1; i < num_threads; ++i) {
    if (!StartThread(workers_, [this, i] { Work(i); })) break;
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(size_t n, size_t grain, FunctionRef<void(size_t, size_t, int)> body) {
  if (n == 0) return;
  const Loop loop{&body, n, grain};
  next_.store(0, std::memory_order_relaxed);
  // A piece for each that is woken, and one for this thread.
  const size_t helpers = std::min(workers_.size(), (n - 1) / grain);
  if (helpers > 0) {
    const std::lock_guard lock(mutex_);
    loop_ = loop;
    wanted_ = helpers;
  }
  for (size_t i = 0; i < helpers; ++i) start_.notify_one();
  RunPieces(loop, 0);
  std::unique_lock lock(mutex_);
  wanted_ = 0;  // All pieces are taken: who has not come by now need not.
  done_.wait(lock, [this] { return running_ == 0; });
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void ThreadPool::RunPieces(const Loop& loop, int thread_idx) {
  try {
    while (true) {
      const size_t begin = next_.fetch_add(loop.grain, std::memory_order_relaxed);
      if (begin >= loop.n) return;
      (*loop.body)(begin, std::min(begin + loop.grain, loop.n), thread_idx);
    }
  } catch (...) {  // Out of a thread it would end the process; and the others are still at work.
    next_.store(loop.n, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    if (!thrown_) thrown_ = std::current_exception();
  }
}

void ThreadPool::Work(int thread_idx) {
  EnableDenormals();
  std::unique_lock lock(mutex_);
  while (true) {
    start_.wait(lock, [this] { return stop_ || wanted_ > 0; });
    if (stop_) return;
    --wanted_;
    ++running_;
    const Loop loop = loop_;
    lock.unlock();
    RunPieces(loop, thread_idx);
    lock.lock();
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace picchio
