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
  uint64_t num_reads = 0;            // Of a queue's, that ended with their bytes.
  uint64_t direct_bytes = 0;         // Read past the page cache.
  uint64_t buffered_bytes = 0;       // Read through it.
  uint64_t num_resumed = 0;          // Short and interrupted transfers that were continued.
  uint64_t num_direct_failures = 0;  // Unbuffered transfers that failed and were read buffered.
  uint64_t registered_bytes = 0;     // Of memory that the kernel keeps pinned for reads, now.
  // Sentences for whoever runs the program: slower paths that were taken and why, each said once,
  // in the order in which they came up.
  std::vector<std::string> notes{};
};

// The counters behind a report, shared by a device and its queues. Any thread.
class DeviceStatistics {
 public:
  void AddDirect(uint64_t bytes) { direct_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void AddBuffered(uint64_t bytes) { buffered_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void AddRead() { num_reads_.fetch_add(1, std::memory_order_relaxed); }
  void AddRegistered(uint64_t bytes) { registered_bytes_.fetch_add(bytes); }
  void RemoveRegistered(uint64_t bytes) { registered_bytes_.fetch_sub(bytes); }
  void AddResumed() { num_resumed_.fetch_add(1, std::memory_order_relaxed); }
  void AddDirectFailure() { num_direct_failures_.fetch_add(1, std::memory_order_relaxed); }

  // Notes with the same `subject` are kept once: the first.
  void Note(std::string_view subject, std::string sentence);

  DeviceReport Report() const;

 private:
  std::atomic<uint64_t> num_reads_{0};
  std::atomic<uint64_t> direct_bytes_{0};
  std::atomic<uint64_t> buffered_bytes_{0};
  std::atomic<uint64_t> num_resumed_{0};
  std::atomic<uint64_t> num_direct_failures_{0};
  std::atomic<uint64_t> registered_bytes_{0};

  mutable std::mutex mutex_;
  std::set<std::string, std::less<>> subjects_;  // Guarded by mutex_, as is what follows.
  std::vector<std::string> notes_;
};

}  // namespace picchio
