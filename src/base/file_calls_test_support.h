// A disk that notes what it is asked for, in order, and fails where a test wants it to.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/file_calls.h"
#include "support/test_support.h"

namespace picchio {

// What happens to one call: the `at`-th write, sync or rename, counted from 1.
struct DiskFault {
  enum class Kind {
    kNone,
    kWriteError,
    kWriteNothing,  // 0 bytes.
    kWriteShort,    // Half of them, in whole blocks of 4096 where there are some.
    kWriteWrong,    // All of them, one bit flipped.
    kSyncError,
    kRenameError,
  };
  Kind kind = Kind::kNone;
  int at = 0;
  int error = 0;  // errno
};

// In the place of the system's calls as long as it lives. Any thread.
class TestDisk final : public FileCalls {
 public:
  explicit TestDisk(DiskFault fault = {}) : fault_(fault), replaced_(*this) {}

  ssize_t Write(int descriptor, std::span<const std::byte> bytes, uint64_t offset) override {
    using enum DiskFault::Kind;
    switch (Fault(++writes_, kWriteError, kWriteNothing, kWriteShort, kWriteWrong)) {
      case kWriteError:
        return errno = fault_.error, -1;
      case kWriteNothing:
        return 0;
      case kWriteShort:
        bytes =
            bytes.first(bytes.size() < 8192 ? (bytes.size() + 1) / 2 : bytes.size() / 8192 * 4096);
        break;
      case kWriteWrong: {
        AlignedBuffer copy = std::move(*AlignedBuffer::Allocate(bytes.size(), 4096));
        std::ranges::copy(bytes, copy.data());
        copy.data()[bytes.size() / 2] ^= std::byte{4};
        Note("write " + NameOf(descriptor));
        return FileCalls::Write(descriptor, copy.bytes(), offset);
      }
      default:
        break;
    }
    Note("write " + NameOf(descriptor));
    return FileCalls::Write(descriptor, bytes, offset);
  }

  int Sync(int descriptor) override {
    if (Fault(++syncs_, DiskFault::Kind::kSyncError) != DiskFault::Kind::kNone) {
      return errno = fault_.error, -1;
    }
    Note("sync " + NameOf(descriptor));
    return FileCalls::Sync(descriptor);
  }

  int Rename(const char* from, const char* to) override {
    if (Fault(++renames_, DiskFault::Kind::kRenameError) != DiskFault::Kind::kNone) {
      return errno = fault_.error, -1;
    }
    Note(fmt::format("rename {} {}", Path(from).filename().string(), Path(to).filename().string()));
    return FileCalls::Rename(from, to);
  }

  int FreeBytes(const char* path, uint64_t& bytes) override {
    if (!free_bytes) return FileCalls::FreeBytes(path, bytes);
    bytes = *free_bytes;
    return 0;
  }

  std::optional<uint64_t> free_bytes{};

  int writes() const { return writes_; }
  int syncs() const { return syncs_; }
  int renames() const { return renames_; }

  // "write NAME", "sync NAME", "sync FOLDER/", "rename FROM TO", by file names alone. Writes to one
  // file that follow each other are one.
  std::vector<std::string> calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  template <typename... Kinds>
  DiskFault::Kind Fault(int count, Kinds... of_this_call) const {
    return count == fault_.at && ((fault_.kind == of_this_call) || ...) ? fault_.kind
                                                                        : DiskFault::Kind::kNone;
  }

  static std::string NameOf(int descriptor) {
    std::error_code error;
    const Path path =
        std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), error);
    struct stat info {};
    fstat(descriptor, &info);
    return path.filename().string() + (S_ISDIR(info.st_mode) ? "/" : "");
  }

  void Note(std::string call) {
    const std::lock_guard lock(mutex_);
    if (calls_.empty() || calls_.back() != call) calls_.push_back(std::move(call));
  }

  const DiskFault fault_;
  std::atomic<int> writes_{0};
  std::atomic<int> syncs_{0};
  std::atomic<int> renames_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> calls_;
  const ReplacedFileCalls replaced_;
};

}  // namespace picchio
