// The system calls by which files change, for tests that make them fail or write down their order.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace picchio {

// What File, RenameDurably, SyncFolder and FreeBytes call. Any thread.
class FileCalls {
 public:
  virtual ~FileCalls() = default;

  // As pwrite(2), fsync(2) and rename(2): -1 and errno where they fail.
  virtual ssize_t Write(int descriptor, std::span<const std::byte> bytes, uint64_t offset);
  virtual int Sync(int descriptor);
  virtual int Rename(const char* from, const char* to);
  // As statvfs(3), of which it gives the bytes that an unprivileged user may still write.
  virtual int FreeBytes(const char* path, uint64_t& bytes);

  // The system's own, but while a ReplacedFileCalls lives.
  static FileCalls& InUse();
};

// Puts `calls`, which it borrows, in the place of the system's for the whole process as long as the
// object lives. One at a time, and none while other threads work on files.
class ReplacedFileCalls {
 public:
  explicit ReplacedFileCalls(FileCalls& calls);
  ReplacedFileCalls(const ReplacedFileCalls&) = delete;
  ReplacedFileCalls& operator=(const ReplacedFileCalls&) = delete;
  ~ReplacedFileCalls();
};

}  // namespace picchio
