// A progress line on standard error: rate, share and time left for anything that takes long.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace picchio {

// Any thread may call Add. Nothing is shown in the first two seconds. On a terminal one line is
// redrawn a few times a second; elsewhere a plain line appears every ten seconds.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // Where it is shown, and by which time; for tests, which have their own.
  struct Surroundings {
    bool terminal;
    Clock::time_point (*now)();

    static Surroundings OfTheProcess();
  };

  // `total` in `unit`: "B" is shown as bytes and bytes/s, any other unit as a count.
  Progress(std::string label, uint64_t total, std::string unit = "B",
           Surroundings surroundings = Surroundings::OfTheProcess());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Add(uint64_t amount);
  // For work that knows its own total: never goes back.
  void SetDone(uint64_t done);
  // Shown behind the line, for what goes on beside the work; empty: nothing.
  void SetAside(std::string aside);

  uint64_t done() const { return done_.load(std::memory_order_relaxed); }
  double seconds() const;

 private:
  void Draw(Clock::time_point now);

  const std::string label_;
  const uint64_t total_;
  const std::string unit_;
  const Surroundings surroundings_;
  const Clock::time_point start_;
  std::atomic<uint64_t> done_{0};
  std::atomic<int64_t> next_draw_ns_;  // Since start_.
  std::mutex draw_mutex_;
  bool drawn_ = false;  // Guarded by draw_mutex_.
  std::string aside_;   // The same.
};

}  // namespace picchio
