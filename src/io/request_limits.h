// How large a request the kernel takes in one piece. A larger one it would split or hand to one of
// its worker threads, which costs more than issuing two.
#pragma once

#include <cstdint>

#include "base/file.h"
#include "base/units.h"

namespace picchio {

struct RequestLimits {
  // Into memory of small pages. A bio holds 256 pieces, which are pages where no two lie together.
  uint64_t small_page_bytes = 1_MiB;
  // Into memory that lies in huge pages, of which at most 129 then make up a request.
  uint64_t huge_page_bytes = 256_MiB;
};

// Of a block device, from its queue's files in sysfs; a partition's are its disk's. What cannot be
// read is as for files. Both are powers of two, at least 64 KiB. `root` is where "/" is, for tests.
RequestLimits BlockDeviceLimits(unsigned major, unsigned minor, const Path& root = "/");

}  // namespace picchio
