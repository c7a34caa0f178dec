// Gives memory of the expert cache back when the process's limit shrinks during a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/memory_info.h"
#include "base/status.h"
#include "experts/expert_cache.h"

namespace picchio {

// Looks at the limits of the memory cgroups, at most once a second, and keeps as much room below
// each of them as the run began with: where any of them has come down, chunks of the cache go. A
// limit that is set below what is in use at once cannot be met in time, and the kernel may kill the
// process for it; one that only throttles (v2's memory.high) is met. Owner thread of the cache
// only.
class MemoryWatch {
 public:
  using Clock = std::chrono::steady_clock;
  using Read = std::function<Result<MemoryInfo>()>;

  // `experts` outlives it. `now` and `read` are the machine's but in tests.
  explicit MemoryWatch(
      ExpertCache& experts, Read read = [] { return ReadMemoryInfo(); },
      std::function<Clock::time_point()> now = Clock::now);

  // Between two layers or steps of the run.
  void Check();

  uint64_t bytes_given_back() const { return bytes_given_back_; }

 private:
  ExpertCache& experts_;
  const Read read_;
  const std::function<Clock::time_point()> now_;
  std::optional<Clock::time_point> last_check_;
  // Of each control group that had a limit at the beginning, by its folder.
  struct Start {
    uint64_t limit_bytes = 0;
    int64_t room_bytes = 0;  // To keep below a limit that is lower than that.
  };
  std::map<std::string, Start> starts_;
  uint64_t bytes_given_back_ = 0;
};

}  // namespace picchio
