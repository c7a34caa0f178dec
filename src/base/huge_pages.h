// How much of a piece of memory lies in huge pages: what the kernel gave, not what was asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace picchio {

// The size of a huge page where it matters here: x86-64, and arm64 with pages of 4 KiB.
inline constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

// Bytes of `memory`, all of them touched, that transparent huge pages or hugetlb pages hold. The
// kernel counts by mapping (/proc/self/smaps): where a mapping reaches beyond `memory`, a part of
// its huge pages in proportion is assumed. 0 where the kernel does not tell. Walks the page tables
// of the whole process, so not for inner loops.
uint64_t HugeBytes(std::span<const std::byte> memory);

// The same from the text of a smaps file, for addresses [begin, end).
uint64_t HugeBytesInSmaps(std::string_view smaps, uint64_t begin, uint64_t end);

}  // namespace picchio
