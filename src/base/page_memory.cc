#include "base/page_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/huge_pages.h"
#include "base/units.h"

namespace picchio {
namespace {

// From here on the last, partial huge page is worth its memory: at most one part in sixteen.
constexpr uint64_t kWholeHugePagesFrom = 32_MiB;

// linux/mman.h's MADV_COLLAPSE (Linux 6.1), which the C library of today does not know.
constexpr int kMadviseCollapse = 25;

uint64_t PageBytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

// Maps `size` bytes whose address is a multiple of `alignment`, both multiples of the page size.
std::byte* MapAligned(uint64_t size, uint64_t alignment) {
  const uint64_t slack = alignment > PageBytes() ? alignment : 0;
  void* mapped = mmap(nullptr, size + slack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* data = static_cast<std::byte*>(mapped);
  if (slack == 0) return data;
  const uint64_t address = reinterpret_cast<uintptr_t>(data);
  const uint64_t before = RoundUp(address, alignment) - address;
  if (before > 0) munmap(data, before);
  if (before < slack) munmap(data + before + size, slack - before);
  return data + before;
}

// Backs all pages through the kernel, which says what a write to them would die of. Kernels before
// 5.14 do not know the request: EINVAL.
int PopulateError(std::byte* data, uint64_t size) {
#ifdef MADV_POPULATE_WRITE
  int result;
  do {
    result = madvise(data, size, MADV_POPULATE_WRITE);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  return result == 0 ? 0 : errno;
#else
  (void)data, (void)size;
  return EINVAL;
#endif
}

Status Populate(std::byte* data, uint64_t size) {
  const int error = PopulateError(data, size);
  if (error == 0) return Status::Ok();
  if (error != EINVAL) {
    return {Code::kResourceExhausted, ErrnoError(error, "cannot back the pages").message(), error};
  }
  const uint64_t page_bytes = PageBytes();
  for (uint64_t at = 0; at < size; at += page_bytes) {
    *static_cast<volatile std::byte*>(data + at) = std::byte{0};
  }
  return Status::Ok();
}

}  // namespace

uint64_t PhysicalMemoryBytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * PageBytes();
}

Result<PageMemory> PageMemory::Allocate(uint64_t size) {
  if (size == 0) return PageMemory();
  // Overcommit would grant more than there is, and the kernel would then kill somebody for it.
  const uint64_t physical = PhysicalMemoryBytes();
  if (size > physical) {
    return Error(Code::kResourceExhausted, "no memory for {} bytes: the machine has {}", size,
                 physical);
  }
  size = RoundUp(size, size >= kWholeHugePagesFrom ? kHugePageBytes : PageBytes());
  std::byte* data = MapAligned(size, size >= kHugePageBytes ? kHugePageBytes : PageBytes());
  if (data == nullptr) {
    return Error(Code::kResourceExhausted, "no memory for {} bytes", size);
  }
  PageMemory memory(data, size);
  // Both are wishes: a kernel without huge pages serves small ones.
  (void)madvise(data, size, MADV_HUGEPAGE);
  (void)madvise(data, size, MADV_DONTFORK);
  if (const Status populated = Populate(data, size); !populated.ok()) {
    return populated.WithContext(fmt::format("no memory for {} bytes", size));
  }
  // What came in small pages, from a fragmented machine or one where the automatism is off, is
  // asked for once more, and by name. Costs nothing where all is huge.
  if (size >= kHugePageBytes) (void)madvise(data, size, kMadviseCollapse);
  return memory;
}

PageMemory::~PageMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace picchio
