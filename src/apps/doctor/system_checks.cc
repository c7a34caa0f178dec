#include "apps/doctor/system_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "apps/doctor/machine_facts.h"
#include "base/cgroup.h"
#include "base/cpu_quota.h"
#include "base/human.h"
#include "base/memory_info.h"
#include "base/units.h"

namespace picchio {
namespace {

// From linux/capability.h.
constexpr unsigned kCapIpcLock = 14;

// What stands behind `key` in the line that begins with it; empty where there is none.
std::string Field(const std::string& text, std::string_view key) {
  size_t at = text.starts_with(key) ? 0 : text.find("\n" + std::string(key));
  if (at == std::string::npos) return {};
  at = text.find(key, at) + key.size();
  std::string line = text.substr(at, text.find('\n', at) - at);
  const size_t first = line.find_first_not_of(" \t:");
  return first == std::string::npos ? std::string() : line.substr(first);
}

bool HasCapability(const Path& root, unsigned number) {
  const std::string mask = Field(ReadPseudoFile(root / "proc/self/status"), "CapEff:");
  const uint64_t bits = std::strtoull(mask.c_str(), nullptr, 16);
  return (bits >> number & 1) != 0;
}

bool HasWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || text[at - 1] == ' ';
    const size_t end = at + word.size();
    if (begins && (end == text.size() || text[end] == ' ')) return true;
  }
  return false;
}

}  // namespace

Finding CheckKernel(const Path& root) {
  const std::string text = ReadPseudoFile(root / "proc/sys/kernel/osrelease");
  const std::string release = text.substr(0, text.find('\n'));
  Finding finding{.subject = "kernel", .found = "Linux " + release};
  const auto major = LeadingNumber(release);
  const size_t dot = release.find('.');
  const auto minor = dot == std::string::npos
                         ? std::nullopt
                         : LeadingNumber(std::string_view(release).substr(dot + 1));
  if (!major || !minor) {
    finding.found = "its release cannot be read";
    return finding;
  }
  const auto older = [&](uint64_t than_major, uint64_t than_minor) {
    return *major < than_major || (*major == than_major && *minor < than_minor);
  };
  if (older(5, 11)) {
    finding.health = Health::kCouldBeBetter;
    finding.found += ": too old for our use of io_uring, threads read instead";
    finding.remedy = "update the kernel to 6.1 or later";
  } else if (older(6, 1)) {
    finding.health = Health::kCouldBeBetter;
    finding.found += ": from 6.1 on io_uring takes less CPU time, and tells alignments";
    finding.remedy = "update the kernel to 6.1 or later";
  }
  return finding;
}

Finding CheckIoUring(const Path& root, const Status& ring) {
  Finding finding{.subject = "io_uring"};
  const auto disabled = LeadingNumber(ReadPseudoFile(root / "proc/sys/kernel/io_uring_disabled"));
  const auto seccomp = LeadingNumber(Field(ReadPseudoFile(root / "proc/self/status"), "Seccomp:"));
  if (disabled) finding.found = fmt::format("kernel.io_uring_disabled is {}, ", *disabled);
  finding.found += seccomp.value_or(0) == 2 ? "a seccomp filter is on, " : "no seccomp filter, ";
  if (ring.ok()) {
    finding.found += "a ring can be set up";
    return finding;
  }
  finding.health = Health::kCouldBeBetter;
  finding.found +=
      fmt::format("a ring cannot be set up ({}): threads read instead", ring.message());
  if (disabled.value_or(0) != 0) {
    finding.remedy = "sudo sysctl kernel.io_uring_disabled=0";
  } else if (seccomp.value_or(0) == 2) {
    finding.remedy =
        "allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp "
        "profile (docker run --security-opt seccomp=PROFILE.json)";
  }
  return finding;
}

Finding CheckLockedMemory(const Path& root) {
  Finding finding{.subject = "locked memory"};
  const std::string limits = ReadPseudoFile(root / "proc/self/limits");
  const std::string limit = Field(limits, "Max locked memory");
  const auto bytes = LeadingNumber(limit);
  if (HasCapability(root, kCapIpcLock)) {
    finding.found = "RLIMIT_MEMLOCK does not bind us (CAP_IPC_LOCK): buffers can be registered";
  } else if (limit.starts_with("unlimited")) {
    finding.found = "RLIMIT_MEMLOCK is unlimited: buffers can be registered";
  } else if (!bytes) {
    finding.found = "RLIMIT_MEMLOCK cannot be read";
  } else {
    finding.health = Health::kCouldBeBetter;
    finding.found = fmt::format(
        "RLIMIT_MEMLOCK is {}: io_uring cannot register the expert cache, which costs some CPU "
        "time",
        FormatMemory(*bytes));
    finding.remedy =
        "ulimit -l unlimited, for good in /etc/security/limits.conf: \"* - memlock unlimited\" "
        "(systemd: LimitMEMLOCK=infinity)";
  }
  return finding;
}

Finding CheckHugePages(const Path& root) {
  Finding finding{.subject = "huge pages"};
  const Path folder = root / "sys/kernel/mm/transparent_hugepage";
  const std::string enabled = ChosenWord(ReadPseudoFile(folder / "enabled"));
  const std::string defrag = ChosenWord(ReadPseudoFile(folder / "defrag"));
  const auto pool =
      LeadingNumber(ReadPseudoFile(root / "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"));
  const std::string pool_text =
      pool.value_or(0) > 0 ? fmt::format(", hugetlb pool of {}", FormatMemory(*pool * 2_MiB))
                           : std::string(", no hugetlb pool (none is needed)");
  if (enabled.empty()) {
    finding.found = "their state cannot be seen here";
    return finding;
  }
  finding.found = fmt::format("transparent: {}, defragmentation: {}{}", enabled,
                              defrag.empty() ? "unknown" : defrag, pool_text);
  if (enabled == "never") {
    finding.health = Health::kCouldBeBetter;
    finding.found += ": reads land in small pages, at a fraction of the rate on some drives";
    finding.remedy = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
  } else if (defrag == "never") {
    finding.health = Health::kCouldBeBetter;
    finding.found += ": on a machine that has run for long few may be found";
    finding.remedy = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/defrag";
  }
  return finding;
}

Finding CheckMemory(const Path& root) {
  Finding finding{.subject = "memory"};
  const Result<MemoryInfo> memory = ReadMemoryInfo(root);
  if (!memory.has_value()) {
    finding.found = memory.error().message();
    return finding;
  }
  finding.found = fmt::format("{}, {} of it free for us", FormatMemory(memory->physical_bytes),
                              FormatMemory(memory->FreeForUs()));
  if (memory->cgroup && memory->cgroup->limit_bytes < memory->physical_bytes) {
    finding.found +=
        fmt::format("; a control group limits it to {}", FormatMemory(memory->cgroup->limit_bytes));
    if (memory->FreeForUs() < memory->available_bytes) {
      finding.health = Health::kCouldBeBetter;
      finding.remedy = fmt::format("raise {} (docker run --memory, systemd MemoryMax=)",
                                   memory->cgroup->limit_file);
    }
  }
  return finding;
}

Finding CheckCpu(const Path& root) {
  Finding finding{.subject = "CPU"};
  const std::string text = ReadPseudoFile(root / "proc/cpuinfo");
  const std::string x86 = Field(text, "flags");
  const std::string arm = Field(text, "Features");
  std::string best;
  if (HasWord(x86, "avx512_vnni") && HasWord(x86, "avx512bw")) {
    best = "AVX-512 with VNNI";
  } else if (HasWord(x86, "avx_vnni")) {
    best = "AVX2 with VNNI";
  } else if (HasWord(x86, "avx2") && HasWord(x86, "fma")) {
    best = "AVX2";
  } else if (HasWord(arm, "asimddp")) {
    best = "NEON with dot products";
  }
  const auto num_cpus = static_cast<double>([&] {
    size_t count = text.starts_with("processor") ? 1 : 0;
    for (size_t at = 0; (at = text.find("\nprocessor", at)) != std::string::npos; ++at) ++count;
    return count;
  }());
  finding.found = fmt::format("{}, {:.0f} CPUs, {}", CpuModel(root), num_cpus,
                              best.empty() ? "no instruction set that we have kernels for" : best);
  if (best.empty() && (!x86.empty() || !arm.empty())) {
    finding.health = Health::kCouldBeBetter;
    finding.found += ": plain code computes, many times slower";
  }
  const std::optional<double> quota = CpuQuota(root);
  if (quota && *quota < num_cpus) {
    finding.health = Health::kCouldBeBetter;
    finding.found += fmt::format("; a control group allows {:g} of them", *quota);
    finding.remedy = "raise the quota (docker run --cpus, systemd CPUQuota=)";
  }
  return finding;
}

}  // namespace picchio
