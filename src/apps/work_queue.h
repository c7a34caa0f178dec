// The same work on many items by a few threads, until all are done or one fails.
#pragma once

#include <cstddef>
#include <functional>

#include "base/status.h"

namespace picchio {

// Calls work(item_idx, thread_idx) for every item in [0, num_items), items taken in ascending
// order, on `num_threads` (> 0) threads; on fewer, with a note on standard error, where the system
// has no more. After a failure no further item is begun. Returns the failure of the lowest item
// that failed, so that the answer does not depend on who was faster. What `work` throws, which is
// the library's way of saying that there is no memory, is a failure with kResourceExhausted. All
// threads have ended when it returns.
Status RunOnThreads(int num_threads, size_t num_items,
                    const std::function<Status(size_t item_idx, int thread_idx)>& work);

}  // namespace picchio
