// Files and folders: the only door to the file system for everything but the device layer.
//
// A path is a std::filesystem::path (UTF-8 in messages, whatever the system's own encoding). Every
// message names the file, so callers pass failures on as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace picchio {

using Path = std::filesystem::path;

// Bytes at offsets. What a parser of files takes, so that tests and fuzzers can hand it memory.
// ReadAt may be called from any thread, several at a time.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  virtual uint64_t size() const = 0;  // Bytes, as they were when the file was opened.
  virtual const std::string& name() const = 0;

  // Fills all of `out` from byte `offset`. An end of file before that is an error.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;

  // A hint that these bytes will be read soon; best effort.
  virtual void WillNeed(uint64_t /*offset*/, uint64_t /*bytes*/) const {}
  // A hint that they will not be read again soon; best effort.
  virtual void DropCache(uint64_t /*offset*/, uint64_t /*bytes*/) const {}
};

// An open file of the operating system. Move-only; closes itself. Reads and writes may come from
// any thread, several at a time.
class File final : public RandomAccessFile {
 public:
  static Result<File> OpenForRead(const Path& path);
  // Opens for reading and writing; creates an empty file where there is none, keeps its bytes else.
  // A link in the last place is refused: see FollowLinks.
  static Result<File> OpenForWrite(const Path& path);
  // The same for a file that must not be there yet, under any kind of name: EEXIST.
  static Result<File> CreateNew(const Path& path);
  // Opens a file that is there, or what a link leads to, for reading and for writing in its place.
  static Result<File> OpenForUpdate(const Path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File() override;

  uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;

  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes);
  // Sets the length: cuts the file, or extends it by zeros.
  Status Resize(uint64_t bytes);
  // Reserves the blocks of the first `bytes` bytes without changing the length, where the file
  // system can; a full disk is an error here and not in the middle of the work.
  Status Reserve(uint64_t bytes);
  // Data and metadata to stable storage.
  Status Sync();
  // Hints for long sequential work; best effort, they cannot fail. StartWriteback begins to write
  // dirty pages, so that a later Sync finds little to do. WillNeed begins to read. DropCache lets
  // go of clean pages: a long copy must not push everybody else's out.
  void StartWriteback(uint64_t offset, uint64_t bytes) const;
  void WillNeed(uint64_t offset, uint64_t bytes) const override;
  void DropCache(uint64_t offset, uint64_t bytes) const override;
  // The length now, which is not size() when somebody else changed the file.
  Result<uint64_t> CurrentSize() const;
  // What the file takes of the disk: less than its size where it is sparse, more where it is
  // reserved.
  Result<uint64_t> AllocatedBytes() const;

  // Takes the lock that other processes' TryLock of this file respects; false if another holds it.
  // It goes with the file or with the process.
  Result<bool> TryLock() const;

  // Whether `path` names this very file still, and not one that was put in its place, or none.
  Result<bool> IsAt(const Path& path) const;

  // Reads and writes past the page cache from now on, or through it again. They must then begin and
  // end at multiples of what the device asks for, in memory too. False where the file system has no
  // such thing; some have it and refuse the reads and writes all the same, with EINVAL.
  bool SetUnbuffered(bool unbuffered);

  int descriptor() const { return descriptor_; }

 private:
  File(int descriptor, uint64_t size, std::string name)
      : descriptor_(descriptor), size_(size), name_(std::move(name)) {}

  static Result<File> Open(const Path& path, int flags, const char* purpose);

  int descriptor_ = -1;
  uint64_t size_ = 0;
  std::string name_;
};

// The lock on a folder itself, which no removed or renamed file in it takes away. It goes with the
// object or with the process. Move-only.
class FolderLock {
 public:
  // kUnavailable where somebody else has it. A file system that cannot lock folders (some network
  // ones) lets everybody have it.
  static Result<FolderLock> Take(const Path& folder);

  FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

// Memory that reads as a file, for tests and fuzzers. Borrows the bytes.
class MemoryFile final : public RandomAccessFile {
 public:
  MemoryFile(std::string name, std::span<const std::byte> bytes)
      : name_(std::move(name)), bytes_(bytes) {}

  uint64_t size() const override { return bytes_.size(); }
  const std::string& name() const override { return name_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::string name_;
  std::span<const std::byte> bytes_;
};

// `path` as UTF-8, for messages.
std::string PathText(const Path& path);

// The folder that `path` is in: "." where it names none.
Path ParentOf(const Path& path);

// What a link leads to, through further ones; it need not be there yet. Any other path as it is.
Result<Path> FollowLinks(Path path);

// Makes the folder and those above it that are missing, and syncs each folder that has got a new
// one. A folder that is there already is left as it is.
Status MakeFolders(const Path& folder);

// The whole of a file of at most `max_bytes`; a larger one is refused before it is read.
Result<std::string> ReadFileToString(const Path& path, uint64_t max_bytes);

// Renames within a folder and syncs the folder.
Status RenameDurably(const Path& from, const Path& to);
Status SyncFolder(const Path& folder);

// Bytes that an unprivileged user may still write to the file system that holds `path`.
Result<uint64_t> FreeBytes(const Path& path);

// Changes when the file is replaced or written: its device and inode, size, and the times of its
// last change of content and of state. For comparing, not for people.
Result<std::string> FileStamp(const Path& path);

bool FileExists(const Path& path);  // A regular file, or a link to one.
// Anything of that name, a folder or a link to nothing among them.
bool SomethingExists(const Path& path);

// File names (no folders, no paths) in `folder`, sorted by bytes.
Result<std::vector<std::string>> ListFiles(const Path& folder);

}  // namespace picchio
