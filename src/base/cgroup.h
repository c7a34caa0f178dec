// Control groups: where the files lie that limit this process, in cgroup v1, v2 or both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace picchio {

// A folder of control files, as the process sees it ("/sys/fs/cgroup/user.slice").
struct CgroupFolder {
  bool v2 = false;
  std::string path;
};

// The folders of the process's group and of its ancestors up to the mount point, innermost first,
// in every mounted hierarchy that may have `controller` ("memory", "cpu"): v1's that has it and v2,
// whose groups have its files where it is enabled. A limit in any of them holds for the process.
// Reads /proc/self/{cgroup,mountinfo}, `root` being where "/" is; what cannot be read counts as
// none.
std::vector<CgroupFolder> CgroupFolders(const Path& root, std::string_view controller);

// The text of a file of /proc or of a control group, which have no size to ask for; what does not
// open reads as empty.
std::string ReadPseudoFile(const Path& path);

// `name` in such a folder.
std::string ReadControl(const Path& root, const CgroupFolder& folder, std::string_view name);

// A decimal number at the start of the text; none where there is none, as in "max" or "-1".
std::optional<uint64_t> LeadingNumber(std::string_view text);

}  // namespace picchio
