// A read queue of threads that each do one blocking read at a time: what works on every system.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "io/block_device.h"

namespace picchio {

struct ThreadQueueOptions {
  // Of each queue. A blocking read occupies one thread, so this is also the depth at the drive.
  int num_threads = 8;
  // Of each queue; what is more than the threads waits in line.
  size_t max_in_flight = 256;
};

// Fills all of `out` or says why not. Called by several threads at once.
using BlockingRead = std::function<Status(const DeviceRead&)>;

// kInvalidArgument where one of them is below 1.
Status CheckThreadQueueOptions(const ThreadQueueOptions& options);

// Fails where not even one thread starts; with fewer than asked for, those serve, and a note says
// so to `statistics`, which may be null. What `read` refers to, and they, outlive the queue.
Result<std::unique_ptr<ReadQueue>> StartThreadQueue(const ThreadQueueOptions& options,
                                                    BlockingRead read,
                                                    DeviceStatistics* statistics);

}  // namespace picchio
