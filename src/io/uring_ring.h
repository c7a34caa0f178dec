// An io_uring instance in the fastest mode that the kernel has, or the reason why there is none.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace picchio {

// Made by any thread, and from the first Enable on used by the one that called it: the kernel then
// runs completion work only when that thread asks for it, instead of interrupting it.
class UringRing {
 public:
  struct Options {
    unsigned num_entries = 256;
    // Skips modes: 0 tries SINGLE_ISSUER with DEFER_TASKRUN (Linux 6.1) first, 1 COOP_TASKRUN
    // (5.19), 2 the plain ring. For tests.
    int first_mode = 0;
    // For measurements; both exclude the modes above. A kernel thread that looks for requests; the
    // device polled for completions.
    bool sqpoll = false;
    bool iopoll = false;
  };

  // Fails with kUnavailable on any error, naming what would have to be changed.
  static Result<std::unique_ptr<UringRing>> Open(const Options& options);
  ~UringRing();
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;

  io_uring* get() { return &ring_; }
  std::string_view mode() const { return mode_; }  // For reports and tests.
  // Whether no faster one was wished for that the kernel does not have.
  bool is_fastest_mode() const { return fastest_; }

  // Until then requests can be registered for, not issued. Again: nothing.
  Status Enable();

  // Descriptors that requests then name by their index. -1 leaves one out.
  Status RegisterFiles(std::span<const int> descriptors);

  // Pins `memory`, which must not be over 1 GiB, and returns the index that fixed reads into it
  // name. kResourceExhausted where RLIMIT_MEMLOCK does not allow it, kUnsupported where the kernel
  // or the table does not; reads into it work without.
  Result<int> RegisterBuffer(std::span<std::byte> memory);
  void UnregisterBuffer(int buffer_idx);

 private:
  UringRing() = default;

  io_uring ring_{};
  std::string_view mode_;
  bool fastest_ = true;
  bool open_ = false;
  bool enabled_ = false;
  bool has_buffer_table_ = false;
  std::vector<bool> buffers_used_;
};

// What to tell about a set-up that failed with `error_number`, where the system says `disabled` in
// kernel.io_uring_disabled (none where it has no such setting): the setting or rule to change.
std::string ExplainUringFailure(int error_number, std::optional<uint64_t> disabled);

}  // namespace picchio
