#include "base/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

namespace picchio {
namespace {

// Where a hierarchy of control groups is mounted, and which of its groups the mount point shows.
struct Hierarchy {
  bool v2 = false;
  std::string mount_root;
  std::string mount_point;
};

bool HasItem(std::string_view comma_list, std::string_view item) {
  while (!comma_list.empty()) {
    const size_t comma = std::min(comma_list.find(','), comma_list.size());
    if (comma_list.substr(0, comma) == item) return true;
    comma_list.remove_prefix(std::min(comma + 1, comma_list.size()));
  }
  return false;
}

// mountinfo writes space, tab, newline and backslash in paths as \ and three octal digits.
std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 3, value, 8).ptr == &text[i + 1] + 3) {
      out.push_back(static_cast<char>(value));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

// proc(5): "36 35 98:0 /root /mount/point options [optional...] - type source super_options".
std::vector<Hierarchy> HierarchiesWith(std::string_view controller, const std::string& mountinfo) {
  std::vector<Hierarchy> found;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skip, mount_root, mount_point, word, type, super_options;
    words >> skip >> skip >> skip >> mount_root >> mount_point;
    while (words >> word && word != "-") {
    }
    words >> type >> skip >> super_options;
    const bool v2 = type == "cgroup2";
    if (v2 || (type == "cgroup" && HasItem(super_options, controller))) {
      found.push_back({v2, Unescape(mount_root), Unescape(mount_point)});
    }
  }
  return found;
}

// The path of the process's group in the hierarchy, from lines "0::/path" (v2) and
// "4:memory,hugetlb:/path" (v1).
std::optional<std::string> GroupPath(std::string_view controller, const std::string& proc_cgroup,
                                     bool v2) {
  std::istringstream lines(proc_cgroup);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (v2 ? controllers.empty() : HasItem(controllers, controller)) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The group's path below the mount point, or empty where the mount point is the group itself, as in
// containers: they see another tree than the one that /proc/self/cgroup may speak of.
std::string PathBelowMount(const std::string& group, const std::string& mount_root) {
  if (group.find("/..") != std::string::npos) return {};
  if (mount_root == "/") return group == "/" ? std::string() : group;
  if (group.starts_with(mount_root) && group.substr(mount_root.size()).starts_with('/')) {
    return group.substr(mount_root.size());
  }
  return {};
}

}  // namespace

std::vector<CgroupFolder> CgroupFolders(const Path& root, std::string_view controller) {
  std::vector<CgroupFolder> folders;
  const std::string proc_cgroup = ReadPseudoFile(root / "proc/self/cgroup");
  const std::string mountinfo = ReadPseudoFile(root / "proc/self/mountinfo");
  for (const Hierarchy& h : HierarchiesWith(controller, mountinfo)) {
    const auto group = GroupPath(controller, proc_cgroup, h.v2);
    if (!group.has_value()) continue;
    for (std::string below = PathBelowMount(*group, h.mount_root);;) {
      folders.push_back({h.v2, h.mount_point + below});
      if (below.empty()) break;
      below.resize(below.rfind('/') == std::string::npos ? 0 : below.rfind('/'));
    }
  }
  return folders;
}

std::string ReadPseudoFile(const Path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string ReadControl(const Path& root, const CgroupFolder& folder, std::string_view name) {
  return ReadPseudoFile(root / Path(folder.path).relative_path() / Path(name));
}

std::optional<uint64_t> LeadingNumber(std::string_view text) {
  uint64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace picchio
