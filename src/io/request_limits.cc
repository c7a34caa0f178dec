#include "io/request_limits.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/cgroup.h"
#include "base/huge_pages.h"

namespace picchio {
namespace {

constexpr uint64_t kSmallPageBytes = 4_KiB;
constexpr uint64_t kLeastBytes = 64_KiB;

}  // namespace

RequestLimits BlockDeviceLimits(unsigned major, unsigned minor, const Path& root) {
  const Path device = root / fmt::format("sys/dev/block/{}:{}", major, minor);
  const auto read = [&device](const char* file) {
    // The folder is a link into the disk's, so that ".." of a partition is its disk.
    const auto own = LeadingNumber(ReadPseudoFile(device / "queue" / file));
    return own.has_value() ? own : LeadingNumber(ReadPseudoFile(device / ".." / "queue" / file));
  };
  // No figure of a queue is near this: products stay within 64 bits.
  constexpr uint64_t kCap = uint64_t{1} << 32;
  const auto limit = [&](uint64_t bytes, uint64_t page_bytes) {
    if (const auto kib = read("max_sectors_kb"))
      bytes = std::min(bytes, std::min(*kib, kCap) * 1024);
    if (const auto segments = read("max_segments")) {
      const uint64_t segment = std::min(page_bytes, read("max_segment_size").value_or(page_bytes));
      bytes = std::min(bytes, std::min(*segments, kCap) * segment);
    }
    return std::bit_floor(std::max(bytes, kLeastBytes));
  };
  const RequestLimits files;
  return {.small_page_bytes = limit(files.small_page_bytes, kSmallPageBytes),
          .huge_page_bytes = limit(files.huge_page_bytes, kHugePageBytes)};
}

}  // namespace picchio
