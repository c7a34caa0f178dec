// How many bytes really came from storage, by the kernel's own count: what tells a fast drive from
// a page cache.
#pragma once

#include <cstdint>
#include <optional>

#include "base/file.h"

namespace picchio {

// Where a file's bytes are counted.
class DiskCounters {
 public:
  // Of this process (/proc/self/io), and of the disk of that number (sysfs), which others use too.
  // `root` is where "/" is, for tests.
  DiskCounters(unsigned major, unsigned minor, Path root = "/");

  struct Reading {
    std::optional<uint64_t> process_bytes{};  // None where the system does not tell.
    std::optional<uint64_t> disk_bytes{};
  };
  Reading Read() const;

  // What the process had read between two readings; where that is not told, what the disk was read
  // by everybody; none where neither is.
  static std::optional<uint64_t> BytesBetween(const Reading& before, const Reading& after);

 private:
  const Path process_file_;
  const Path disk_file_;
};

}  // namespace picchio
