// What a report of figures begins with: the machine that they are from.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

// "AMD EPYC", as /proc/cpuinfo has it ("unknown" where it does not). `root` is where "/" is.
std::string CpuModel(const Path& root = "/");
// The word in brackets of a setting with several, as "always [madvise] never"; empty where there is
// none.
std::string ChosenWord(const std::string& setting);
std::string KernelRelease();  // "6.1.0-18-amd64".

// Where a file lies.
struct FilePlace {
  std::string file_system{};  // "ext4".
  unsigned major = 0;         // Of its device, 0:N for what is no disk.
  unsigned minor = 0;
};
Result<FilePlace> PlaceOf(const Path& path);

}  // namespace picchio
