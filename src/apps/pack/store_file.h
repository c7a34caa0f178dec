// A store while it is being written: reserved, past the page cache, under a temporary name.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

// The system calls that a disk may fail, for tests that make it. Any thread.
class DiskCalls {
 public:
  virtual ~DiskCalls() = default;
  // As pwrite(2) and fsync(2): -1 and errno where it fails.
  virtual ssize_t Write(int descriptor, std::span<const std::byte> bytes, uint64_t offset);
  virtual int Sync(int descriptor);

  static DiskCalls& OfTheSystem();
};

// Goes away with the object unless Publish has given it its name; after a crash at any moment the
// old store is there, or the new one, whole. Move-only.
class StoreFile {
 public:
  // A file of `bytes` bytes, all reserved. A link is followed, so that what it points to is
  // replaced. Fails where `path` is there and no store, where another process is writing to it
  // (kUnavailable), and where the disk has no room (kResourceExhausted, with the figures).
  static Result<StoreFile> Create(const Path& path, uint64_t bytes,
                                  DiskCalls& calls = DiskCalls::OfTheSystem());

  StoreFile(StoreFile&& other) noexcept
      : path_(std::move(other.path_)),
        file_(std::move(other.file_)),
        calls_(other.calls_),
        unbuffered_(other.unbuffered_.load()),
        open_(std::exchange(other.open_, false)) {}
  StoreFile& operator=(StoreFile&&) = delete;
  ~StoreFile();

  const Path& path() const { return path_; }  // With links followed.
  // False once the file system has refused to go past its cache.
  bool unbuffered() const { return unbuffered_.load(std::memory_order_relaxed); }

  // Offset, length and memory are multiples of 4096. Any thread, several at a time.
  Status Write(uint64_t offset, std::span<const std::byte> bytes);
  // To stable storage, all of it.
  Status Sync();
  // Reads back what was written; after Sync. Any thread.
  Status Read(uint64_t offset, std::span<std::byte> bytes) const {
    return file_.ReadAt(offset, bytes);
  }
  // So that reads come from the disk; best effort.
  void DropCache() const { file_.DropCache(0, file_.size()); }
  // Gives it its name and syncs the folder. After Sync.
  Status Publish();

 private:
  StoreFile(Path path, File file, DiskCalls& calls)
      : path_(std::move(path)), file_(std::move(file)), calls_(&calls) {}

  Path path_;
  File file_;
  DiskCalls* calls_;
  std::atomic<bool> unbuffered_{false};
  bool open_ = true;
};

}  // namespace picchio
