// How long a call may wait, without the arithmetic that overflows.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace picchio {

// The time-out of a wait that has none.
inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

// The moment at which a wait that begins now and lasts at most `timeout` ends. Value type.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // Time-outs below zero are zero; those that the clock cannot count to (kForever) never pass.
  explicit Deadline(std::chrono::nanoseconds timeout) {
    const Clock::time_point now = Clock::now();
    if (timeout.count() <= 0) {
      at_ = now;
    } else if (timeout < Clock::time_point::max() - now) {
      at_ = now + std::chrono::duration_cast<Clock::duration>(timeout);
    }
  }

  bool never() const { return at_ == Clock::time_point::max(); }
  bool passed() const { return !never() && Clock::now() >= at_; }

  // What is left of the time-out: zero when it has passed, kForever where it never does.
  std::chrono::nanoseconds left() const {
    if (never()) return kForever;
    const Clock::time_point now = Clock::now();
    return now >= at_ ? std::chrono::nanoseconds(0) : std::chrono::nanoseconds(at_ - now);
  }

  // Waits on `condition` until `done()` or the deadline; returns done().
  template <typename Predicate>
  bool Wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
            Predicate done) const {
    if (!never()) return condition.wait_until(lock, at_, done);
    condition.wait(lock, done);
    return true;
  }

 private:
  Clock::time_point at_ = Clock::time_point::max();
};

}  // namespace picchio
