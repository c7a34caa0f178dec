#include "base/memory_info.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace picchio {
namespace {

// Pseudo files have no size to ask for; what does not open reads as empty.
std::string ReadText(const Path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A decimal number at the start of the text; none where there is none, as in "max" or "-1".
std::optional<uint64_t> LeadingNumber(std::string_view text) {
  uint64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
    return std::nullopt;
  }
  return value;
}

// The number behind `key` and white space at the start of a line.
std::optional<uint64_t> Field(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const size_t at = line.find_first_not_of(" \t", key.size());
    if (at != key.size() && at != std::string::npos) {
      return LeadingNumber(std::string_view(line).substr(at));
    }
  }
  return std::nullopt;
}

// The same from files that give KiB, as those of /proc do.
std::optional<uint64_t> FieldKiB(const std::string& text, std::string_view key) {
  const auto value = Field(text, key);
  if (!value.has_value() || *value > UINT64_MAX / 1024) return std::nullopt;
  return *value * 1024;
}

uint64_t Less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

// Names of the control files of one version of cgroups.
struct Controls {
  std::vector<std::string_view> limits;
  std::string_view usage;
  std::vector<std::string_view> file_pages;  // Fields of memory.stat, hierarchical.
};

const Controls& ControlsOf(bool v2) {
  static const Controls kV1 = {.limits = {"memory.limit_in_bytes"},
                               .usage = "memory.usage_in_bytes",
                               .file_pages = {"total_inactive_file", "total_active_file"}};
  static const Controls kV2 = {.limits = {"memory.max", "memory.high"},
                               .usage = "memory.current",
                               .file_pages = {"inactive_file", "active_file"}};
  return v2 ? kV2 : kV1;
}

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
std::vector<Hierarchy> MemoryHierarchies(const std::string& mountinfo) {
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
    if (v2 || (type == "cgroup" && HasItem(super_options, "memory"))) {
      found.push_back({v2, Unescape(mount_root), Unescape(mount_point)});
    }
  }
  return found;
}

// The path of the process's group in the hierarchy, from lines "0::/path" (v2) and
// "4:memory,hugetlb:/path" (v1).
std::optional<std::string> GroupPath(const std::string& proc_cgroup, bool v2) {
  std::istringstream lines(proc_cgroup);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (v2 ? controllers.empty() : HasItem(controllers, "memory")) return line.substr(second + 1);
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

std::optional<CgroupMemory> ReadGroup(const Path& root, const std::string& folder, bool v2) {
  const Controls& controls = ControlsOf(v2);
  const auto read = [&](std::string_view name) {
    return ReadText(root / Path(folder).relative_path() / Path(name));
  };
  std::optional<CgroupMemory> group;
  for (std::string_view file : controls.limits) {
    const auto limit = LeadingNumber(read(file));
    if (limit.has_value() && (!group.has_value() || *limit < group->limit_bytes)) {
      group = {.limit_bytes = *limit, .limit_file = folder + "/" + std::string(file)};
    }
  }
  if (!group.has_value()) return std::nullopt;
  group->used_bytes = LeadingNumber(read(controls.usage)).value_or(0);
  const std::string stat = read("memory.stat");
  for (std::string_view field : controls.file_pages) {
    group->used_bytes = Less(group->used_bytes, Field(stat, field).value_or(0));
  }
  return group;
}

std::optional<CgroupMemory> TightestGroup(const Path& root) {
  const std::string proc_cgroup = ReadText(root / "proc/self/cgroup");
  std::optional<CgroupMemory> tightest;
  for (const Hierarchy& h : MemoryHierarchies(ReadText(root / "proc/self/mountinfo"))) {
    const auto group = GroupPath(proc_cgroup, h.v2);
    if (!group.has_value()) continue;
    // From the group up to the mount point: a limit holds for everything below it.
    for (std::string below = PathBelowMount(*group, h.mount_root);;) {
      if (auto here = ReadGroup(root, h.mount_point + below, h.v2);
          here.has_value() &&
          (!tightest.has_value() || Less(here->limit_bytes, here->used_bytes) <
                                        Less(tightest->limit_bytes, tightest->used_bytes))) {
        tightest = std::move(here);
      }
      if (below.empty()) break;
      below.resize(below.rfind('/') == std::string::npos ? 0 : below.rfind('/'));
    }
  }
  return tightest;
}

}  // namespace

uint64_t MemoryInfo::FreeForUs() const {
  if (!cgroup.has_value()) return available_bytes;
  return std::min(available_bytes,
                  Less(Less(cgroup->limit_bytes, cgroup->used_bytes), hugetlb_bytes));
}

Result<MemoryInfo> ReadMemoryInfo(const Path& root) {
  MemoryInfo info;
  const Path file = root / "proc/meminfo";
  const std::string meminfo = ReadText(file);
  const auto physical = FieldKiB(meminfo, "MemTotal:");
  const auto available = FieldKiB(meminfo, "MemAvailable:");
  if (!physical.has_value() || !available.has_value()) {
    return Error(Code::kUnsupported,
                 "{}: expected lines MemTotal and MemAvailable, without which the free memory is "
                 "unknown",
                 PathText(file));
  }
  info.physical_bytes = *physical;
  info.available_bytes = *available;
  info.hugetlb_bytes = FieldKiB(ReadText(root / "proc/self/status"), "HugetlbPages:").value_or(0);
  info.cgroup = TightestGroup(root);
  // v1 writes "no limit" as the largest multiple of a page in 63 bits: more than the machine has is
  // no limit of ours.
  if (info.cgroup.has_value() && info.cgroup->limit_bytes >= info.physical_bytes) {
    info.cgroup.reset();
  }
  return info;
}

}  // namespace picchio
