// Things that go wrong on purpose between a queue of reads and whoever reaps them: failures,
// delays, disorder and reluctance. What FaultyDevice and FaultyExpertSource are made of.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"

namespace picchio {

// Which faults; all rates are in [0, 1] and drawn from the seed alone, read by read in the order in
// which they are accepted, so that a run repeats.
struct FaultPlan {
  uint64_t seed = 1;
  // Reads that fail, with one of `codes`; where there are none, of those that are usual.
  double fail_rate = 0;
  std::vector<Code> codes{};
  // Reads that fail whatever the rate: by their number, counted from 0 as they are accepted.
  std::map<uint64_t, Code> fail_reads{};
  // Completions that are held back, and for how long: far beyond a caller's patience it is a device
  // that has stopped answering.
  double delay_rate = 0;
  std::chrono::nanoseconds delay{0};
  std::set<uint64_t> delay_reads{};  // By their number, whatever the rate.
  // Calls of Submit that take a random part of what there is room for.
  double refuse_rate = 0;
  // Completions come in random order and random numbers.
  bool shuffle = false;
};

// The reads of one queue from their acceptance until they are handed out. Completion has the `tag`
// of its read. Owner thread only.
template <typename Read, typename Completion>
class InjectedFaults {
 public:
  InjectedFaults(FaultPlan plan, const std::vector<Code>& usual_codes)
      : plan_(std::move(plan)),
        codes_(plan_.codes.empty() ? usual_codes : plan_.codes),
        random_(plan_.seed) {}

  // How many of so many reads may go on to a queue that takes `max_in_flight`. Those that are held
  // back here have left the queue below, but not this one.
  size_t Room(size_t wanted, size_t max_in_flight) {
    size_t room = std::min(wanted, max_in_flight - reads_.size());
    if (room > 0 && Draw(plan_.refuse_rate)) {
      const size_t least = reads_.empty() ? 1 : 0;
      room = least + random_() % (room + 1 - least);
    }
    return room;
  }

  // A read that the queue below has accepted. Its fault is decided now, so that it does not depend
  // on the order of completion.
  void Accept(uint64_t tag, const Read& read) {
    Accepted accepted{.read = read};
    if (Draw(plan_.fail_rate) && !codes_.empty()) {
      accepted.fault = codes_[random_() % codes_.size()];
    }
    if (const auto at = plan_.fail_reads.find(num_accepted_); at != plan_.fail_reads.end()) {
      accepted.fault = at->second;
    }
    accepted.delayed = Draw(plan_.delay_rate) || plan_.delay_reads.contains(num_accepted_);
    reads_.emplace(tag, accepted);
    ++num_accepted_;
  }

  // Reap of the queue above: `reap(batch, timeout)` is that of the queue below, and
  // `fail(completion, read, code)` makes a failure of a completion that is OK.
  template <typename Reap, typename Fail>
  size_t HandOut(std::span<Completion> out, std::chrono::nanoseconds timeout, Reap&& reap,
                 Fail&& fail) {
    if (out.empty()) return 0;
    const Deadline deadline(timeout);
    for (;;) {
      Take(std::chrono::nanoseconds(0), reap, fail);
      const size_t count = HandOutDue(out);
      if (count > 0 || reads_.empty() || deadline.passed()) return count;
      std::chrono::nanoseconds wait = deadline.left();
      for (const Held& held : held_) {
        wait = std::min<std::chrono::nanoseconds>(wait, held.release - Clock::now());
      }
      if (reads_.size() > held_.size()) {
        Take(wait, reap, fail);
      } else {
        std::this_thread::sleep_for(wait);
      }
    }
  }

  // Forgets all reads: the queue below has been drained.
  void Clear() {
    held_.clear();
    reads_.clear();
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Accepted {
    Read read;
    std::optional<Code> fault{};
    bool delayed = false;
  };

  struct Held {
    Completion completion;
    Clock::time_point release;
  };

  bool Draw(double rate) {
    // 53 bits fill a double exactly: the same draws on every platform.
    return rate > 0 && static_cast<double>(random_() >> 11) * 0x1p-53 < rate;
  }

  // Takes what has completed below, waiting for it at most `timeout`.
  template <typename Reap, typename Fail>
  void Take(std::chrono::nanoseconds timeout, Reap& reap, Fail& fail) {
    Completion batch[16];
    size_t count;
    do {
      count = reap(std::span<Completion>(batch), timeout);
      timeout = std::chrono::nanoseconds(0);
      for (Completion& completion : std::span(batch).first(count)) {
        const Accepted& accepted = reads_.at(completion.tag);
        if (completion.status.ok() && accepted.fault) {
          fail(completion, accepted.read, *accepted.fault);
        }
        const Clock::time_point now = Clock::now();
        held_.push_back({std::move(completion), accepted.delayed ? now + plan_.delay : now});
      }
    } while (count == std::size(batch));
  }

  size_t HandOutDue(std::span<Completion> out) {
    const Clock::time_point now = Clock::now();
    std::vector<size_t> due;
    for (size_t i = 0; i < held_.size(); ++i) {
      if (held_[i].release <= now) due.push_back(i);
    }
    size_t count = std::min(out.size(), due.size());
    if (plan_.shuffle && count > 0) {
      for (size_t i = due.size() - 1; i > 0; --i) std::swap(due[i], due[random_() % (i + 1)]);
      count = 1 + random_() % count;
    }
    for (size_t i = 0; i < count; ++i) {
      out[i] = std::move(held_[due[i]].completion);
      reads_.erase(out[i].tag);
    }
    std::sort(due.begin(), due.begin() + static_cast<ptrdiff_t>(count), std::greater<>());
    for (size_t i = 0; i < count; ++i) held_.erase(held_.begin() + static_cast<ptrdiff_t>(due[i]));
    return count;
  }

  const FaultPlan plan_;
  const std::vector<Code> codes_;
  std::mt19937_64 random_;
  uint64_t num_accepted_ = 0;
  std::unordered_map<uint64_t, Accepted> reads_;  // By tag: all not handed out yet.
  std::vector<Held> held_;                        // Completed below, not handed out.
};

}  // namespace picchio
