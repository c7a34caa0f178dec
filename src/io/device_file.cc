#include "io/device_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "io/direct_access.h"

namespace picchio {

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Result<std::unique_ptr<DeviceFile>> DeviceFile::Open(const Path& path, const Options& options,
                                                     DeviceStatistics* statistics) {
  std::unique_ptr<DeviceFile> file(new DeviceFile(options, statistics));
  std::string name = PathText(path);
  // O_NONBLOCK: opening a pipe that nobody writes to must not hang.
  file->buffered_ = Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int descriptor = file->buffered_.number();
  if (descriptor < 0) {
    if (errno == ENOENT) return Status(Code::kNotFound, name + " does not exist", ENOENT);
    return ErrnoError(errno, "cannot open " + name);
  }
  struct stat info;
  if (fstat(descriptor, &info) != 0) return ErrnoError(errno, "cannot examine " + name);
  if (S_ISBLK(info.st_mode)) {
    if (ioctl(descriptor, BLKGETSIZE64, &file->size_) != 0) {
      return ErrnoError(errno, "cannot get the size of " + name);
    }
    file->limits_ = BlockDeviceLimits(major(info.st_rdev), minor(info.st_rdev));
  } else if (S_ISREG(info.st_mode)) {
    file->size_ = static_cast<uint64_t>(info.st_size);
  } else {
    return Error(Code::kInvalidArgument, "{} is neither a regular file nor a block device", name);
  }
  // io_uring would fail what it cannot serve at once in place of waiting for it.
  if (fcntl(descriptor, F_SETFL, 0) != 0) return ErrnoError(errno, "cannot open " + name);
  if (options.direct) {
    const DirectAccess access = OpenDirect(path, descriptor, file->size_, options.max_alignment);
    file->direct_ = Descriptor(access.descriptor);
    file->transfer_file_.direct_alignment = access.alignment;
    if (access.alignment == 0) {
      statistics->Note("buffered " + name, fmt::format("{} {}: it is read through the page cache",
                                                       name, access.why_not));
    }
  }
  file->transfer_file_.name = std::move(name);
  return file;
}

Status DeviceFile::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  Transfer transfer(&transfer_file_, offset, out, options_.max_request_bytes);
  while (!transfer.finished()) {
    const Transfer::Request request = transfer.Next();
    const int descriptor = request.direct ? direct_.number() : buffered_.number();
    const ssize_t got = pread(descriptor, request.out.data(), request.out.size(),
                              static_cast<off_t>(request.offset));
    int64_t result = got < 0 ? -errno : got;
    if (options_.faults != nullptr) result = options_.faults->Alter(result, request.direct);
    transfer.Answered(result, *statistics_);
  }
  if (transfer.status().ok()) statistics_->AddRead();
  return transfer.status();
}

Result<std::vector<std::unique_ptr<DeviceFile>>> OpenDeviceFiles(std::span<const Path> paths,
                                                                 const DeviceFile::Options& options,
                                                                 DeviceStatistics* statistics) {
  if (paths.empty()) return Error(Code::kInvalidArgument, "a device needs at least one file");
  std::vector<std::unique_ptr<DeviceFile>> files;
  for (const Path& path : paths) {
    PICCHIO_ASSIGN_OR_RETURN(auto file, DeviceFile::Open(path, options, statistics));
    files.push_back(std::move(file));
  }
  return files;
}

uint64_t AlignmentOf(std::span<const std::unique_ptr<DeviceFile>> files) {
  uint64_t alignment = 1;
  for (const auto& file : files) {
    alignment = std::max(alignment, file->transfer_file().direct_alignment);
  }
  return alignment;
}

Status ReadAligned(std::span<const std::unique_ptr<DeviceFile>> files, uint64_t alignment,
                   const DeviceRead& read) {
  PICCHIO_CHECK(read.file_idx < files.size());
  const DeviceFile& file = *files[read.file_idx];
  PICCHIO_RETURN_IF_ERROR(CheckAlignment(read, alignment, file.size(), file.name()));
  return file.ReadAt(read.offset, read.out);
}

std::string NameOfFiles(const std::string& first, size_t num_files) {
  return num_files == 1 ? first : fmt::format("{} and {} more", first, num_files - 1);
}

}  // namespace picchio
