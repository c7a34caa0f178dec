#include "base/cpu_quota.h"

#include <string>
#include <string_view>

#include "base/cgroup.h"

namespace picchio {
namespace {

// One group's. v2: "100000 100000" or "max 100000"; v1: two files, -1 for no quota.
std::optional<double> QuotaOf(const Path& root, const CgroupFolder& folder) {
  std::optional<uint64_t> quota;
  std::optional<uint64_t> period;
  if (folder.v2) {
    const std::string text = ReadControl(root, folder, "cpu.max");
    quota = LeadingNumber(text);
    const size_t space = text.find(' ');
    if (space != std::string::npos)
      period = LeadingNumber(std::string_view(text).substr(space + 1));
  } else {
    quota = LeadingNumber(ReadControl(root, folder, "cpu.cfs_quota_us"));
    period = LeadingNumber(ReadControl(root, folder, "cpu.cfs_period_us"));
  }
  if (quota.value_or(0) == 0 || period.value_or(0) == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

std::optional<double> CpuQuota(const Path& root) {
  std::optional<double> least;
  for (const CgroupFolder& folder : CgroupFolders(root, "cpu")) {
    const auto quota = QuotaOf(root, folder);
    if (quota.has_value() && (!least.has_value() || *quota < *least)) least = quota;
  }
  return least;
}

}  // namespace picchio
