// Whether a file can be read past the page cache, and at which multiples.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"

namespace picchio {

// What unbuffered reads ask for, or why there are none.
struct DirectAccess {
  int descriptor = -1;     // Open for unbuffered reads; the caller closes it.
  uint64_t alignment = 0;  // Of address, offset and length, a power of two; 0 where there is none.
  // Where there is none, the end of a sentence that begins with the file: "lies on tmpfs, ...".
  std::string why_not{};
};

// Opens `path` for unbuffered reads, finds the alignment (at least 4096, what the kernel says, and
// what a real read turns out to need) and looks whether such reads really leave the page cache
// alone. `buffered` is a descriptor of the same file, `max_alignment` what the caller can keep to.
// Any failure is a reason and not an error: the file can still be read buffered.
DirectAccess OpenDirect(const Path& path, int buffered, uint64_t size, uint64_t max_alignment);

// The alignment from what the kernel reports for memory and offsets (statx) or sectors (0 where it
// reports nothing): the largest of them and 4096. 0 where one of them is no power of two.
uint64_t CombineAlignments(uint64_t memory, uint64_t offset, uint64_t sector);

// "tmpfs", "ext4", ... by the magic number of statfs; "an unknown file system" for others.
std::string_view FileSystemName(uint64_t magic);

}  // namespace picchio
