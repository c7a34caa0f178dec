#include "apps/doctor/machine_facts.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include <cerrno>

#include "base/cgroup.h"
#include "io/direct_access.h"

namespace picchio {

std::string CpuModel(const Path& root) {
  const std::string text = ReadPseudoFile(root / "proc/cpuinfo");
  const size_t key = text.find("model name");
  const size_t begin = key == std::string::npos ? key : text.find(": ", key);
  if (begin == std::string::npos) return "unknown";
  return text.substr(begin + 2, text.find('\n', begin) - begin - 2);
}

std::string ChosenWord(const std::string& setting) {
  const size_t open = setting.find('[');
  const size_t close = setting.find(']', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return setting.substr(open + 1, close - open - 1);
}

std::string KernelRelease() {
  utsname system{};
  return uname(&system) == 0 ? system.release : "unknown";
}

Result<FilePlace> PlaceOf(const Path& path) {
  struct stat info {};
  struct statfs system {};
  if (stat(path.c_str(), &info) != 0 || statfs(path.c_str(), &system) != 0) {
    return ErrnoError(errno, "cannot examine " + PathText(path));
  }
  const dev_t device = S_ISBLK(info.st_mode) ? info.st_rdev : info.st_dev;
  return FilePlace{
      // A signed word on some machines; the numbers have 32 bits.
      .file_system = S_ISBLK(info.st_mode)
                         ? "none (a block device)"
                         : std::string(FileSystemName(static_cast<uint32_t>(system.f_type))),
      .major = major(device),
      .minor = minor(device)};
}

}  // namespace picchio
