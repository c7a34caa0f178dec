#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/check.h"

namespace picchio {
namespace {

// CPUs by the cgroup's quota over its period, or `cpus` where there is none. Reads the controllers
// as containers show them, at the root of the cgroup file system; v2 first, then v1.
int QuotaCpus(int cpus) {
  double quota = -1;
  double period = 0;
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2) {
    std::string first;
    if (v2 >> first >> period && first != "max") quota = std::atof(first.c_str());
  } else {
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota;
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period;
  }
  if (quota <= 0 || period <= 0) return cpus;
  return std::min(cpus, static_cast<int>(std::ceil(quota / period)));
}

}  // namespace

int UsableCpus() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) cpus = CPU_COUNT(&mask);
  return std::max(1, QuotaCpus(cpus));
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
    workers_.emplace_back([this, i] { Work(i); });
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
  if (workers_.empty() || n <= grain) {
    RunPieces(loop, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    loop_ = loop;
    ++generation_;
    running_ = static_cast<int>(workers_.size());
  }
  start_.notify_all();
  RunPieces(loop, 0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
}

void ThreadPool::RunPieces(const Loop& loop, int thread_idx) {
  while (true) {
    const size_t begin = next_.fetch_add(loop.grain, std::memory_order_relaxed);
    if (begin >= loop.n) return;
    (*loop.body)(begin, std::min(begin + loop.grain, loop.n), thread_idx);
  }
}

void ThreadPool::Work(int thread_idx) {
  EnableDenormals();
  uint64_t seen = 0;
  while (true) {
    Loop loop;
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      loop = loop_;
    }
    RunPieces(loop, thread_idx);
    {
      const std::lock_guard lock(mutex_);
      if (--running_ > 0) continue;
    }
    done_.notify_one();
  }
}

}  // namespace picchio
