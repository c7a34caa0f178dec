#include "apps/bench/run_cold_start.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "io/device_file.h"

namespace picchio {

std::vector<Path> FilesToForget(const Path& model, const std::vector<Path>& stores) {
  std::vector<Path> files;
  if (const auto names = ListFiles(model); names.has_value()) {
    for (const std::string& name : *names) files.push_back(model / name);
  }
  for (const Path& store : stores) {
    if (FileExists(store)) files.push_back(store);
  }
  return files;
}

Result<std::string> ForgetFiles(const std::vector<Path>& files, const Path& control) {
  // Only what has reached the disk can be let go of.
  std::vector<File> open_files;
  for (const Path& path : files) {
    Result<File> file = File::OpenForRead(path);
    // A temporary of whoever else uses the folder: it has its name by now, or is no more.
    if (!file && file.error().code() == Code::kNotFound) continue;
    PICCHIO_RETURN_IF_ERROR(file.status());
    fsync(file->descriptor());
    open_files.push_back(std::move(file).value());
  }
  // Not created where there is none, as a file would be.
  if (const Descriptor all(open(control.c_str(), O_WRONLY | O_CLOEXEC)); all.number() >= 0) {
    if (write(all.number(), "1\n", 2) == 2) return std::string("the kernel's whole page cache");
  }
  for (const File& file : open_files) file.DropCache(0, file.size());
  return fmt::format(
      "the {} files of the model, by posix_fadvise (the kernel's whole page cache needs root)",
      open_files.size());
}

}  // namespace picchio
