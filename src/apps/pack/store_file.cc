#include "apps/pack/store_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/human.h"
#include "base/units.h"
#include "format/flat_superblock.h"

namespace picchio {
namespace {

// One system call moves at most this much: below what any kernel takes in one.
constexpr size_t kMaxWriteBytes = 256_MiB;

// Left over for the manifest and the file system's own books.
constexpr uint64_t kSpareBytes = 16_MiB;

// What a link points to, which need not be there yet.
Result<Path> FollowLinks(Path path) {
  constexpr int kMaxLinks = 40;  // As many as the kernel follows.
  std::error_code error;
  for (int i = 0; i < kMaxLinks; ++i) {
    if (!std::filesystem::is_symlink(path, error)) return path;
    const Path target = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / target;  // An absolute one stands for itself.
  }
  return ErrnoError(error ? error.value() : ELOOP, "cannot follow the link " + PathText(path));
}

// What is there already must be a store: a slip of the hand in -o shall cost nobody a file.
Status CheckTarget(const Path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return Status::Ok();
  if (!FileExists(path)) {
    return Error(Code::kInvalidArgument, "cannot write {}: it is not a regular file",
                 PathText(path));
  }
  PICCHIO_ASSIGN_OR_RETURN(const File file, File::OpenForRead(path));
  std::array<std::byte, kFlatMagic.size()> first{};
  if (file.size() >= first.size()) PICCHIO_RETURN_IF_ERROR(file.ReadAt(0, first));
  if (!std::ranges::equal(first, std::as_bytes(std::span(kFlatMagic)))) {
    return Error(Code::kInvalidArgument,
                 "{} is there and is not a store: remove it, or choose another name",
                 PathText(path));
  }
  return Status::Ok();
}

// Opens the temporary file and locks it; whoever had it may have renamed or removed it meanwhile.
Result<File> OpenLocked(const Path& temporary, const Path& path) {
  while (true) {
    PICCHIO_ASSIGN_OR_RETURN(File file, File::OpenForWrite(temporary));
    PICCHIO_ASSIGN_OR_RETURN(const bool locked, file.TryLock());
    if (!locked) {
      return Error(Code::kUnavailable,
                   "another picchio is writing {}: wait for it, or choose another name with -o",
                   PathText(path));
    }
    PICCHIO_ASSIGN_OR_RETURN(const bool ours, file.IsAt(temporary));
    if (ours) return file;
  }
}

}  // namespace

ssize_t DiskCalls::Write(int descriptor, std::span<const std::byte> bytes, uint64_t offset) {
  return pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
}

int DiskCalls::Sync(int descriptor) { return fsync(descriptor); }

DiskCalls& DiskCalls::OfTheSystem() {
  static DiskCalls calls;
  return calls;
}

Result<StoreFile> StoreFile::Create(const Path& path, uint64_t bytes, DiskCalls& calls) {
  PICCHIO_ASSIGN_OR_RETURN(Path target, FollowLinks(path));
  PICCHIO_RETURN_IF_ERROR(CheckTarget(target));
  PICCHIO_ASSIGN_OR_RETURN(File opened, OpenLocked(TemporaryName(target), target));
  StoreFile store(std::move(target), std::move(opened), calls);
  // What a killed run left is of no use.
  PICCHIO_RETURN_IF_ERROR(store.file_.Resize(0));
  const Path folder = store.path_.has_parent_path() ? store.path_.parent_path() : Path(".");
  PICCHIO_ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(folder));
  if (bytes + kSpareBytes > free) {
    return Error(Code::kResourceExhausted,
                 "{} has {} free, and the store needs {}: make room, or name a file on another "
                 "disk with -o",
                 PathText(folder), FormatBytes(free), FormatBytes(bytes + kSpareBytes));
  }
  PICCHIO_RETURN_IF_ERROR(store.file_.Reserve(bytes));
  PICCHIO_RETURN_IF_ERROR(store.file_.Resize(bytes));
  store.unbuffered_ = store.file_.SetUnbuffered(true);
  return store;
}

StoreFile::~StoreFile() {
  std::error_code ignored;
  if (open_) std::filesystem::remove(TemporaryName(path_), ignored);
}

Status StoreFile::Write(uint64_t offset, std::span<const std::byte> bytes) {
  const auto whole = bytes;
  const uint64_t start = offset;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kMaxWriteBytes));
    const bool was_unbuffered = unbuffered();
    const ssize_t put = calls_->Write(file_.descriptor(), part, offset);
    if (put > 0) {
      bytes = bytes.subspan(static_cast<size_t>(put));
      offset += static_cast<uint64_t>(put);
      continue;
    }
    const int error = put < 0 ? errno : EIO;
    if (error == EINTR) continue;
    // A file system may take O_DIRECT and then refuse its writes, and what a short write left over
    // may begin within a block. The flag goes before its note here: whoever reads the note and
    // still fails has not met it.
    if (error == EINVAL && was_unbuffered && file_.SetUnbuffered(false)) {
      unbuffered_ = false;
      continue;
    }
    return ErrnoError(error, fmt::format("cannot write {} at byte {}", PathText(path_), offset));
  }
  if (!unbuffered()) file_.StartWriteback(start, whole.size());
  return Status::Ok();
}

Status StoreFile::Sync() {
  while (calls_->Sync(file_.descriptor()) != 0) {
    if (errno != EINTR) return ErrnoError(errno, "cannot sync " + PathText(path_));
  }
  return Status::Ok();
}

Status StoreFile::Publish() {
  PICCHIO_RETURN_IF_ERROR(RenameDurably(TemporaryName(path_), path_));
  open_ = false;
  return Status::Ok();
}

}  // namespace picchio
