#include "base/huge_pages.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/cgroup.h"

namespace picchio {
namespace {

// "begin-end ..." in hexadecimal, as the first line of a mapping has it.
bool ParseRange(std::string_view line, uint64_t& begin, uint64_t& end) {
  const char* const last = line.data() + line.size();
  const auto first_number = std::from_chars(line.data(), last, begin, 16);
  if (first_number.ec != std::errc() || first_number.ptr == last || *first_number.ptr != '-') {
    return false;
  }
  const auto second_number = std::from_chars(first_number.ptr + 1, last, end, 16);
  return second_number.ec == std::errc() && begin < end;
}

// What the line gives for `key`, in bytes; 0 where it is about something else.
uint64_t FieldBytes(std::string_view line, std::string_view key) {
  if (!line.starts_with(key)) return 0;
  line.remove_prefix(std::min(line.find_first_not_of(' ', key.size()), line.size()));
  return LeadingNumber(line).value_or(0) * 1024;
}

}  // namespace

uint64_t HugeBytesInSmaps(std::string_view smaps, uint64_t begin, uint64_t end) {
  uint64_t total = 0;
  uint64_t mapping_bytes = 0;
  uint64_t overlap = 0;  // Of the mapping that the lines are about.
  while (!smaps.empty()) {
    const size_t line_end = std::min(smaps.find('\n'), smaps.size());
    const std::string_view line = smaps.substr(0, line_end);
    smaps.remove_prefix(std::min(line_end + 1, smaps.size()));
    uint64_t first;
    uint64_t last;
    if (ParseRange(line, first, last)) {
      const uint64_t from = std::max(first, begin);
      const uint64_t to = std::min(last, end);
      mapping_bytes = last - first;
      overlap = from < to ? to - from : 0;
    } else if (overlap > 0) {
      const uint64_t huge = FieldBytes(line, "AnonHugePages:") +
                            FieldBytes(line, "Private_Hugetlb:") +
                            FieldBytes(line, "Shared_Hugetlb:");
      const double share = static_cast<double>(huge) / static_cast<double>(mapping_bytes);
      total += static_cast<uint64_t>(static_cast<double>(overlap) * std::min(share, 1.0));
    }
  }
  return std::min(total, end - begin);
}

uint64_t HugeBytes(std::span<const std::byte> memory) {
  const uint64_t begin = reinterpret_cast<uintptr_t>(memory.data());
  return HugeBytesInSmaps(ReadPseudoFile("/proc/self/smaps"), begin, begin + memory.size());
}

}  // namespace picchio
