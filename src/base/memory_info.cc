#include "base/memory_info.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cgroup.h"

namespace picchio {
namespace {

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

std::optional<CgroupMemory> ReadGroup(const Path& root, const CgroupFolder& folder) {
  const Controls& controls = ControlsOf(folder.v2);
  const auto read = [&](std::string_view name) { return ReadControl(root, folder, name); };
  std::optional<CgroupMemory> group;
  for (std::string_view file : controls.limits) {
    const auto limit = LeadingNumber(read(file));
    if (limit.has_value() && (!group.has_value() || *limit < group->limit_bytes)) {
      group = {.limit_bytes = *limit, .limit_file = folder.path + "/" + std::string(file)};
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

uint64_t Room(const CgroupMemory& group) { return Less(group.limit_bytes, group.used_bytes); }

}  // namespace

uint64_t MemoryInfo::FreeForUs() const {
  if (!cgroup.has_value()) return available_bytes;
  return std::min(available_bytes,
                  Less(Less(cgroup->limit_bytes, cgroup->used_bytes), hugetlb_bytes));
}

Result<MemoryInfo> ReadMemoryInfo(const Path& root) {
  MemoryInfo info;
  const Path file = root / "proc/meminfo";
  const std::string meminfo = ReadPseudoFile(file);
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
  info.hugetlb_bytes =
      FieldKiB(ReadPseudoFile(root / "proc/self/status"), "HugetlbPages:").value_or(0);
  for (const CgroupFolder& folder : CgroupFolders(root, "memory")) {
    auto group = ReadGroup(root, folder);
    // v1 writes "no limit" as the largest multiple of a page in 63 bits: more than the machine has
    // is no limit of ours.
    if (!group.has_value() || group->limit_bytes >= info.physical_bytes) continue;
    if (!info.cgroup.has_value() || Room(*group) < Room(*info.cgroup)) info.cgroup = group;
    info.groups.push_back(*std::move(group));
  }
  return info;
}

}  // namespace picchio
