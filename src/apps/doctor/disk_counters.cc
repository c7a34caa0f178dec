#include "apps/doctor/disk_counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/cgroup.h"

namespace picchio {
namespace {

// Sectors in the block layer's statistics have 512 bytes, whatever the disk's have.
constexpr uint64_t kSectorBytes = 512;

std::optional<uint64_t> Growth(std::optional<uint64_t> before, std::optional<uint64_t> after) {
  if (!before || !after || *after < *before) return std::nullopt;
  return *after - *before;
}

}  // namespace

DiskCounters::DiskCounters(unsigned major, unsigned minor, Path root)
    : process_file_(root / "proc/self/io"),
      disk_file_(root / fmt::format("sys/dev/block/{}:{}/stat", major, minor)) {}

DiskCounters::Reading DiskCounters::Read() const {
  Reading reading;
  constexpr std::string_view kKey = "\nread_bytes: ";
  const std::string process = "\n" + ReadPseudoFile(process_file_);
  if (const size_t at = process.find(kKey); at != std::string::npos) {
    reading.process_bytes = LeadingNumber(std::string_view(process).substr(at + kKey.size()));
  }
  // Documentation/block/stat.rst: reads, reads merged, sectors read, ...
  const std::string disk = ReadPseudoFile(disk_file_);
  std::string_view disk_line = disk;
  std::optional<uint64_t> value;
  for (int field = 0; field < 3; ++field) {
    const size_t first = disk_line.find_first_not_of(" \n");
    if (first == std::string_view::npos) return reading;
    disk_line.remove_prefix(first);
    value = LeadingNumber(disk_line);
    if (!value) return reading;
    disk_line.remove_prefix(std::min(disk_line.find(' '), disk_line.size()));
  }
  reading.disk_bytes = *value * kSectorBytes;
  return reading;
}

std::optional<uint64_t> DiskCounters::BytesBetween(const Reading& before, const Reading& after) {
  const auto process = Growth(before.process_bytes, after.process_bytes);
  return process ? process : Growth(before.disk_bytes, after.disk_bytes);
}

}  // namespace picchio
