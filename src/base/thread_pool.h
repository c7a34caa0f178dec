// A fixed team of threads for parallel loops.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace picchio {

// The number of CPUs that this process may use: its affinity mask or its control groups' CPU quota
// (cpu_quota.h), whichever is less; at least 1.
int UsableCpus();

// Runs loops on `num_threads` threads, the calling one among them. Every thread of the team
// computes with denormals (FTZ and DAZ cleared), as the arithmetic contract asks. Idle threads
// sleep; a loop wakes no more of them than it has pieces. ParallelFor is called by one thread at a
// time and not from within a loop.
class ThreadPool {
 public:
  // Of fewer threads, at least the calling one, where the system has no more: see num_threads().
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end, thread_idx) for pieces of at most `grain` (> 0) that cover [0, n) once,
  // in no order, thread_idx in [0, num_threads); returns when all have returned. What the pieces
  // wrote is visible to the caller. What a piece throws, which is the library's way of saying that
  // there is no memory, is thrown to the caller when all that were begun have ended.
  void ParallelFor(size_t n, size_t grain, FunctionRef<void(size_t, size_t, int)> body);

 private:
  struct Loop {
    FunctionRef<void(size_t, size_t, int)>* body;
    size_t n;
    size_t grain;
  };

  void Work(int thread_idx);
  void RunPieces(const Loop& loop, int thread_idx);

  std::vector<std::thread> workers_;
  std::atomic<size_t> next_{0};

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  Loop loop_{};         // Guarded by mutex_, as is what follows.
  size_t wanted_ = 0;   // Workers that may still join the current loop.
  size_t running_ = 0;  // Workers that have, and are still in it.
  bool stop_ = false;
  std::exception_ptr thrown_;  // By the first piece that did, in the current loop.
};

// Clears flush-to-zero and denormals-are-zero for the calling thread.
void EnableDenormals();

}  // namespace picchio
