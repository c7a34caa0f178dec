// What a device did on its way to the bytes, for statistics and for people.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace picchio {

struct DeviceReport {
  uint64_t direct_bytes = 0;         // Read past the page cache.
  uint64_t buffered_bytes = 0;       // Read through it.
  uint64_t num_resumed = 0;          // Short and interrupted transfers that were continued.
  uint64_t num_direct_failures = 0;  // Unbuffered transfers that failed and were read buffered.
  // Sentences for whoever runs the program: slower paths that were taken and why, each said once,
  // in the order in which they came up.
  std::vector<std::string> notes{};
};

// The counters behind a report, shared by a device and its queues. Any thread.
class DeviceStatistics {
 public:
  void AddDirect(uint64_t bytes) { direct_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void AddBuffered(uint64_t bytes) { buffered_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void AddResumed() { num_resumed_.fetch_add(1, std::memory_order_relaxed); }
  void AddDirectFailure() { num_direct_failures_.fetch_add(1, std::memory_order_relaxed); }

  // Notes with the same `subject` are kept once: the first.
  void Note(std::string_view subject, std::string sentence);

  DeviceReport Report() const;

 private:
  std::atomic<uint64_t> direct_bytes_{0};
  std::atomic<uint64_t> buffered_bytes_{0};
  std::atomic<uint64_t> num_resumed_{0};
  std::atomic<uint64_t> num_direct_failures_{0};

  mutable std::mutex mutex_;
  std::set<std::string, std::less<>> subjects_;  // Guarded by mutex_, as is what follows.
  std::vector<std::string> notes_;
};

}  // namespace picchio
