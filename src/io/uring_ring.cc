#include "io/uring_ring.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/cgroup.h"
#include "base/human.h"
#include "base/units.h"

namespace picchio {
namespace {

// Chunks of 256 MiB: 128 GiB.
constexpr unsigned kMaxBuffers = 512;

struct Mode {
  unsigned flags;
  std::string_view name;
};

// Disabled at first, so that the thread that enables it becomes the single issuer.
constexpr Mode kModes[] = {
    {IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER |
         IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
     "deferred task work"},
    {IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN |
         IORING_SETUP_TASKRUN_FLAG,
     "cooperative task work"},
    {IORING_SETUP_R_DISABLED, "plain"},
};

Status Failure(int error) {
  const auto disabled = LeadingNumber(ReadPseudoFile("/proc/sys/kernel/io_uring_disabled"));
  return {Code::kUnavailable, ExplainUringFailure(error, disabled), error};
}

}  // namespace

std::string ExplainUringFailure(int error_number, std::optional<uint64_t> disabled) {
  const std::string words = std::generic_category().message(error_number);
  if (disabled.value_or(0) > 0) {
    return fmt::format(
        "io_uring is switched off on this system ({}): sysctl kernel.io_uring_disabled "
        "is {}, 0 allows it{}",
        words, *disabled, *disabled == 1 ? ", as does membership in kernel.io_uring_group" : "");
  }
  if (error_number == EPERM || error_number == EACCES) {
    return fmt::format(
        "io_uring is refused to this process ({}): a seccomp filter, as containers "
        "have, must allow io_uring_setup, io_uring_enter and io_uring_register",
        words);
  }
  if (error_number == ENOSYS) {
    return fmt::format(
        "io_uring is missing ({}): the kernel is built without it, is older than "
        "5.11, or a seccomp filter hides it",
        words);
  }
  if (error_number == ENOMEM) {
    return fmt::format(
        "io_uring has no memory for its queues ({}): in old and in very new kernels they count "
        "against RLIMIT_MEMLOCK (ulimit -l)",
        words);
  }
  return fmt::format("io_uring cannot be set up: {}", words);
}

Result<std::unique_ptr<UringRing>> UringRing::Open(const Options& options) {
  std::unique_ptr<UringRing> ring(new UringRing);
  const bool polls = options.sqpoll || options.iopoll;
  int result = -EINVAL;
  for (int mode = polls ? 2 : options.first_mode; mode < 3 && result == -EINVAL; ++mode) {
    io_uring_params params{};
    params.flags = kModes[mode].flags | IORING_SETUP_CLAMP |
                   (options.sqpoll ? IORING_SETUP_SQPOLL : 0) |
                   (options.iopoll ? IORING_SETUP_IOPOLL : 0);
    params.sq_thread_idle = 100;  // Milliseconds; with SQPOLL only.
    result = io_uring_queue_init_params(options.num_entries, &ring->ring_, &params);
    ring->mode_ = kModes[mode].name;
    ring->fastest_ = polls || mode == 0;
  }
  if (result < 0) return Failure(-result);
  ring->open_ = true;
  // Waiting with a time-out, and completions that are never dropped (Linux 5.11).
  if ((ring->ring_.features & IORING_FEAT_EXT_ARG) == 0 ||
      (ring->ring_.features & IORING_FEAT_NODROP) == 0) {
    return Failure(ENOSYS);
  }
  // A filter may let the one call pass and stop the next, which would be found out with reads in
  // flight. A ring that is not enabled answers this with EBADFD.
  const int entered = io_uring_enter(static_cast<unsigned>(ring->ring_.ring_fd), 0, 0, 0, nullptr);
  if (entered == -EPERM || entered == -EACCES || entered == -ENOSYS) return Failure(-entered);
  const int registered = io_uring_register_buffers_sparse(&ring->ring_, kMaxBuffers);
  if (registered == -EPERM || registered == -EACCES || registered == -ENOSYS) {
    return Failure(-registered);
  }
  ring->has_buffer_table_ = registered == 0;  // Linux 5.19.
  if (ring->has_buffer_table_) ring->buffers_used_.resize(kMaxBuffers);
  // A child of a fork would keep the files and the pinned memory.
  (void)io_uring_ring_dontfork(&ring->ring_);
  return ring;
}

UringRing::~UringRing() {
  if (open_) io_uring_queue_exit(&ring_);
}

Status UringRing::Enable() {
  if (enabled_) return Status::Ok();
  // By number: the library's own function for it is missing from liburing 2.3.
  const int result = io_uring_register(static_cast<unsigned>(ring_.ring_fd),
                                       IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  if (result < 0) return Failure(-result);
  enabled_ = true;
  return Status::Ok();
}

Status UringRing::RegisterFiles(std::span<const int> descriptors) {
  const int result = io_uring_register_files(&ring_, descriptors.data(),
                                             static_cast<unsigned>(descriptors.size()));
  return result < 0 ? ErrnoError(-result, "cannot register files with io_uring") : Status::Ok();
}

Result<int> UringRing::RegisterBuffer(std::span<std::byte> memory) {
  const auto free = std::find(buffers_used_.begin(), buffers_used_.end(), false);
  if (free == buffers_used_.end() || memory.size() > 1_GiB) {
    return Error(Code::kUnsupported, "io_uring cannot register {} bytes of memory", memory.size());
  }
  const auto buffer_idx = static_cast<unsigned>(free - buffers_used_.begin());
  const iovec range{.iov_base = memory.data(), .iov_len = memory.size()};
  const __u64 tag = 0;
  const int result = io_uring_register_buffers_update_tag(&ring_, buffer_idx, &range, &tag, 1);
  if (result == -ENOMEM) {
    rlimit limit{};
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    return Error(Code::kResourceExhausted,
                 "{} of memory cannot be registered with io_uring: RLIMIT_MEMLOCK is {}; "
                 "ulimit -l unlimited, LimitMEMLOCK=infinity or CAP_IPC_LOCK would allow it",
                 FormatMemory(memory.size()), FormatMemory(limit.rlim_cur));
  }
  if (result < 0) {
    return Error(Code::kUnsupported, "memory cannot be registered with io_uring: {}",
                 std::generic_category().message(-result));
  }
  *free = true;
  return static_cast<int>(buffer_idx);
}

void UringRing::UnregisterBuffer(int buffer_idx) {
  const iovec nothing{};
  const __u64 tag = 0;
  (void)io_uring_register_buffers_update_tag(&ring_, static_cast<unsigned>(buffer_idx), &nothing,
                                             &tag, 1);
  buffers_used_[static_cast<size_t>(buffer_idx)] = false;
}

}  // namespace picchio
