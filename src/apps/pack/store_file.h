// A store while it is being written: reserved, past the page cache, under a temporary name.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

// Goes away with the object unless Publish has given it its name; after a crash at any moment the
// old store is there, or the new one, whole. Move-only.
class StoreFile {
 public:
  // A file of `bytes` bytes, all reserved. A link is followed, so that what it points to is
  // replaced. Fails where `path` is there and no store, where another process is writing to it
  // (kUnavailable), and where the disk has no room (kResourceExhausted, with the figures).
  static Result<StoreFile> Create(const Path& path, uint64_t bytes);

  StoreFile(StoreFile&& other) noexcept
      : path_(std::move(other.path_)),
        file_(std::move(other.file_)),
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
  Status Sync() { return file_.Sync(); }
  // Reads back what was written; after Sync. Any thread.
  Status Read(uint64_t offset, std::span<std::byte> bytes) const {
    return file_.ReadAt(offset, bytes);
  }
  // So that reads come from the disk; best effort.
  void DropCache() const { file_.DropCache(0, file_.size()); }
  // Gives it its name and syncs the folder. After Sync. kUnavailable where another process is
  // mending the store that it would replace.
  Status Publish();
  // Whether the file system has it under that name, which says nothing of a crash.
  bool HasItsName() const {
    const Result<bool> in_place = file_.IsAt(path_);
    return in_place && *in_place;
  }

 private:
  StoreFile(Path path, File file) : path_(std::move(path)), file_(std::move(file)) {}

  Path path_;
  File file_;
  std::atomic<bool> unbuffered_{false};
  bool open_ = true;
};

}  // namespace picchio
