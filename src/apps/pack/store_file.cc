#include "apps/pack/store_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/human.h"
#include "base/units.h"
#include "format/flat_superblock.h"

namespace picchio {
namespace {

// Left over for the manifest and the file system's own books.
constexpr uint64_t kSpareBytes = 16_MiB;

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

}  // namespace

Result<StoreFile> StoreFile::Create(const Path& path, uint64_t bytes) {
  PICCHIO_ASSIGN_OR_RETURN(Path target, FollowLinks(path));
  PICCHIO_RETURN_IF_ERROR(CheckTarget(target));
  PICCHIO_ASSIGN_OR_RETURN(std::optional<File> opened, TakeTemporary(TemporaryName(target)));
  if (!opened) {
    return Error(Code::kUnavailable,
                 "another picchio is writing {}: wait for it, or choose another name with -o",
                 PathText(target));
  }
  StoreFile store(std::move(target), std::move(*opened));
  const Path folder = ParentOf(store.path_);
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
  const bool was_unbuffered = unbuffered();
  Status status = file_.WriteAt(offset, bytes);
  // A file system may take O_DIRECT and then refuse its writes, and what a short write left over
  // may begin within a block: all of it once more. The flag goes before its note here: whoever
  // reads the note and still fails has not met it.
  if (status.native_error() == EINVAL && was_unbuffered && file_.SetUnbuffered(false)) {
    unbuffered_ = false;
    status = file_.WriteAt(offset, bytes);
  }
  if (status.ok() && !unbuffered()) file_.StartWriteback(offset, bytes.size());
  return status;
}

Status StoreFile::Publish() {
  // Locked until the new one is in its place: whoever mends a store in its place locks it too.
  const Result<File> old = File::OpenForRead(path_);
  if (old) {
    const Result<bool> locked = old->TryLock();
    if (locked && !*locked) {
      return Error(Code::kUnavailable, "another picchio is mending {}: wait for it",
                   PathText(path_));
    }
  }
  PICCHIO_RETURN_IF_ERROR(RenameDurably(TemporaryName(path_), path_));
  open_ = false;
  return Status::Ok();
}

}  // namespace picchio
