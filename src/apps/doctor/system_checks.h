// Whether this machine, as its kernel describes it, lets reads be as fast as they can.
#pragma once

#include "apps/doctor/finding.h"
#include "base/file.h"
#include "base/status.h"

namespace picchio {

// Each reads /proc and /sys under `root`, "/" but for tests. What cannot be read is said, and no
// fault.

Finding CheckKernel(const Path& root);
// kernel.io_uring_disabled and seccomp, and what really setting up a ring said: OK, or why not.
Finding CheckIoUring(const Path& root, const Status& ring);
Finding CheckLockedMemory(const Path& root);  // RLIMIT_MEMLOCK, and who it does not bind.
Finding CheckHugePages(const Path& root);
Finding CheckMemory(const Path& root);  // The machine's, and what control groups leave of it.
Finding CheckCpu(const Path& root);     // Instruction sets and CPU quota.

}  // namespace picchio
