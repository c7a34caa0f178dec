#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/file_calls.h"
#include "base/units.h"

namespace picchio {
namespace {

// Linux moves at most 0x7ffff000 bytes in one call and macOS refuses INT_MAX: stay below both.
constexpr size_t kMaxTransferBytes = 1_GiB;

Result<File> NotAFile(const std::string& name, mode_t mode) {
  return Error(Code::kInvalidArgument, "{} is {}, not a regular file", name,
               S_ISDIR(mode) ? "a folder" : "a device or a pipe");
}

int SyncDescriptor(int descriptor) {
  int result;
  do {
    result = FileCalls::InUse().Sync(descriptor);
  } while (result != 0 && errno == EINTR);
  return result;
}

}  // namespace

std::string PathText(const Path& path) {
  const std::u8string text = path.u8string();
  return {text.begin(), text.end()};
}

// O_NONBLOCK: opening a pipe that nobody uses must not hang. It means nothing for files.
Result<File> File::Open(const Path& path, int flags, const char* purpose) {
  const std::string name = PathText(path);
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666);
  if (descriptor < 0) {
    if (errno == ENOENT && (flags & O_CREAT) == 0) {
      return Status(Code::kNotFound, name + " does not exist", ENOENT);
    }
    return ErrnoError(errno, fmt::format("cannot {} {}", purpose, name));
  }
  File file(descriptor, 0, name);
  struct stat info;
  if (fstat(descriptor, &info) != 0) return ErrnoError(errno, "cannot examine " + name);
  if (!S_ISREG(info.st_mode)) return NotAFile(name, info.st_mode);
  file.size_ = static_cast<uint64_t>(info.st_size);
  return file;
}

Result<File> File::OpenForRead(const Path& path) { return Open(path, O_RDONLY, "open"); }

Result<File> File::OpenForWrite(const Path& path) {
  return Open(path, O_RDWR | O_CREAT | O_NOFOLLOW, "write");
}

Result<File> File::CreateNew(const Path& path) {
  return Open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, "write");
}

Result<File> File::OpenForUpdate(const Path& path) { return Open(path, O_RDWR, "write"); }

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      name_(std::move(other.name_)) {}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    size_ = other.size_;
    name_ = std::move(other.name_);
  }
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status File::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(descriptor_, out.data(), std::min(out.size(), kMaxTransferBytes),
                              static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoError(errno, fmt::format("cannot read {} at byte {}", name_, offset));
    }
    if (got == 0) {
      return Error(Code::kIoError, "{} ends at byte {}, {} bytes before the end of what was asked",
                   name_, offset, out.size());
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return Status::Ok();
}

Status File::WriteAt(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = FileCalls::InUse().Write(
        descriptor_, bytes.first(std::min(bytes.size(), kMaxTransferBytes)), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {  // Nothing written and no reason given: trying for ever would not help.
      return ErrnoError(put < 0 ? errno : EIO,
                        fmt::format("cannot write {} at byte {}", name_, offset));
    }
    bytes = bytes.subspan(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return Status::Ok();
}

Status File::Resize(uint64_t bytes) {
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
    return ErrnoError(errno, fmt::format("cannot set the length of {} to {} bytes", name_, bytes));
  }
  size_ = bytes;
  return Status::Ok();
}

Status File::Reserve(uint64_t bytes) {
  if (bytes == 0) return Status::Ok();
  int result;
  do {
    result = fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  // A file system without fallocate loses the early answer, nothing else.
  if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
    return ErrnoError(errno, fmt::format("cannot reserve {} bytes for {}", bytes, name_));
  }
  return Status::Ok();
}

Status File::Sync() {
  if (SyncDescriptor(descriptor_) != 0) return ErrnoError(errno, "cannot sync " + name_);
  return Status::Ok();
}

void File::StartWriteback(uint64_t offset, uint64_t bytes) const {
  (void)sync_file_range(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                        SYNC_FILE_RANGE_WRITE);
}

void File::WillNeed(uint64_t offset, uint64_t bytes) const {
  (void)posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                      POSIX_FADV_WILLNEED);
}

void File::DropCache(uint64_t offset, uint64_t bytes) const {
  (void)posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                      POSIX_FADV_DONTNEED);
}

Result<uint64_t> File::CurrentSize() const {
  struct stat info;
  if (fstat(descriptor_, &info) != 0) return ErrnoError(errno, "cannot examine " + name_);
  return static_cast<uint64_t>(info.st_size);
}

Result<uint64_t> File::AllocatedBytes() const {
  struct stat info;
  if (fstat(descriptor_, &info) != 0) return ErrnoError(errno, "cannot examine " + name_);
  return static_cast<uint64_t>(info.st_blocks) * 512;
}

Result<bool> File::TryLock() const {
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  return ErrnoError(errno, "cannot lock " + name_);
}

Result<FolderLock> FolderLock::Take(const Path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return ErrnoError(errno, "cannot open folder " + PathText(folder));
  FolderLock lock(descriptor);
  int result;
  do {
    result = flock(descriptor, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno == EWOULDBLOCK) {
    return Error(Code::kUnavailable, "{} is locked by another process", PathText(folder));
  }
  return lock;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<bool> File::IsAt(const Path& path) const {
  struct stat ours;
  if (fstat(descriptor_, &ours) != 0) return ErrnoError(errno, "cannot examine " + name_);
  struct stat there;
  if (stat(path.c_str(), &there) != 0) {
    if (errno == ENOENT) return false;
    return ErrnoError(errno, "cannot examine " + PathText(path));
  }
  return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

bool File::SetUnbuffered(bool unbuffered) {
  const int flags = fcntl(descriptor_, F_GETFL);
  if (flags < 0) return false;
  return fcntl(descriptor_, F_SETFL, unbuffered ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

Status MemoryFile::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
    return Error(Code::kIoError, "{} ends at byte {}, before the end of what was asked", name_,
                 bytes_.size());
  }
  if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  return Status::Ok();
}

Path ParentOf(const Path& path) { return path.has_parent_path() ? path.parent_path() : Path("."); }

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

Status MakeFolders(const Path& folder) {
  Path made;
  // Level by level, for each new name must reach the disk; ".." and links mean what they mean to
  // the system. A slash at the end makes an empty last level.
  for (const Path& level : folder) {
    const Path above = made.empty() ? Path(".") : made;
    made /= level;
    if (level.empty()) continue;
    std::error_code error;
    if (std::filesystem::create_directory(made, error)) {
      PICCHIO_RETURN_IF_ERROR(SyncFolder(above));
    } else if (error) {
      return ErrnoError(error.value(), "cannot make the folder " + PathText(made));
    }
  }
  return Status::Ok();
}

namespace {

// For the kernel's own files (/proc/cpuinfo), which say that they have no bytes and have some.
Result<std::string> ReadToTheEnd(const File& file, uint64_t max_bytes) {
  constexpr size_t kPieceBytes = 64_KiB;
  std::string text;
  while (text.size() <= max_bytes) {
    const size_t at = text.size();
    text.resize(at + kPieceBytes);
    const ssize_t got =
        pread(file.descriptor(), text.data() + at, kPieceBytes, static_cast<off_t>(at));
    const int error = errno;
    text.resize(at + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (got < 0 && error != EINTR) return ErrnoError(error, "cannot read " + file.name());
  }
  return Error(Code::kCorrupt, "{} has more than the {} bytes that such a file may have",
               file.name(), max_bytes);
}

}  // namespace

Result<std::string> ReadFileToString(const Path& path, uint64_t max_bytes) {
  PICCHIO_ASSIGN_OR_RETURN(const File file, File::OpenForRead(path));
  if (file.size() > max_bytes) {
    return Error(Code::kCorrupt, "{} has {} bytes, more than the {} that such a file may have",
                 file.name(), file.size(), max_bytes);
  }
  if (file.size() == 0) return ReadToTheEnd(file, max_bytes);
  std::string text(file.size(), '\0');
  PICCHIO_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Status RenameDurably(const Path& from, const Path& to) {
  if (FileCalls::InUse().Rename(from.c_str(), to.c_str()) != 0) {
    return ErrnoError(errno, fmt::format("cannot rename {} to {}", PathText(from), PathText(to)));
  }
  return SyncFolder(ParentOf(to));
}

Status SyncFolder(const Path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return ErrnoError(errno, "cannot open folder " + PathText(folder));
  const int result = SyncDescriptor(descriptor);
  const int error = errno;
  close(descriptor);
  // EINVAL: a file system whose folders cannot be synced (some FUSE) has nothing more to offer.
  if (result != 0 && error != EINVAL) {
    return ErrnoError(error, "cannot sync folder " + PathText(folder));
  }
  return Status::Ok();
}

Result<uint64_t> FreeBytes(const Path& path) {
  uint64_t bytes = 0;
  if (FileCalls::InUse().FreeBytes(path.c_str(), bytes) != 0) {
    return ErrnoError(errno, "cannot examine the file system of " + PathText(path));
  }
  return bytes;
}

Result<std::string> FileStamp(const Path& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return ErrnoError(errno, "cannot examine " + PathText(path));
  }
  return fmt::format("{}:{} {} {}.{} {}.{}", info.st_dev, info.st_ino, info.st_size,
                     info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ctim.tv_sec,
                     info.st_ctim.tv_nsec);
}

bool FileExists(const Path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool SomethingExists(const Path& path) {
  std::error_code ignored;
  // What may not be looked at (no permission, say) is taken to be there: opening it tells why.
  return std::filesystem::symlink_status(path, ignored).type() !=
         std::filesystem::file_type::not_found;
}

Result<std::vector<std::string>> ListFiles(const Path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  std::vector<std::string> names;
  while (!error && entries != std::filesystem::directory_iterator()) {
    std::error_code ignored;
    if (entries->is_regular_file(ignored)) names.push_back(PathText(entries->path().filename()));
    entries.increment(error);
  }
  if (error) return ErrnoError(error.value(), "cannot list folder " + PathText(folder));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace picchio
