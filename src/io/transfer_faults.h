// Misfortune between us and the operating system, for tests: what the answer to a read request may
// be besides all of its bytes.
#pragma once

#include <cstdint>
#include <mutex>
#include <random>

namespace picchio {

// Rates are in [0, 1]; what happens to the n-th request follows from the seed alone.
struct TransferFaultPlan {
  uint64_t seed = 1;
  double interrupt_rate = 0;     // EINTR.
  double again_rate = 0;         // EAGAIN.
  double short_rate = 0;         // A part of the bytes, at least one.
  double direct_error_rate = 0;  // EIO, of unbuffered requests only: a buffered one would succeed.
  double error_rate = 0;         // EIO, of any.
};

// Stands where answers of the system arrive: pread's value, io_uring's completion. The request has
// been served; its bytes may lie in memory although the answer says otherwise. Any thread.
class TransferFaults {
 public:
  explicit TransferFaults(const TransferFaultPlan& plan) : plan_(plan), random_(plan.seed) {}

  // `result` is what the system said: bytes, or a negated errno. Returns what is to be believed.
  // Short answers to unbuffered requests are cut at multiples of 512, as devices cut them.
  int64_t Alter(int64_t result, bool direct);

  uint64_t num_altered() const;

 private:
  const TransferFaultPlan plan_;
  mutable std::mutex mutex_;
  std::mt19937_64 random_;  // Guarded by mutex_, as is what follows.
  uint64_t num_altered_ = 0;
};

}  // namespace picchio
