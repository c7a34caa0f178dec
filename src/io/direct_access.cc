#include "io/direct_access.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/units.h"

namespace picchio {
namespace {

constexpr uint64_t kLeastAlignment = 4096;
// Where the kernel does not say, larger ones are tried up to here.
constexpr uint64_t kMostTried = 64_KiB;

// From linux/magic.h and the file systems' own sources.
constexpr std::pair<uint64_t, std::string_view> kFileSystems[] = {
    {0x01021994, "tmpfs"}, {0x858458f6, "ramfs"},     {0x958458f6, "hugetlbfs"},
    {0xef53, "ext4"},      {0x58465342, "XFS"},       {0x9123683e, "btrfs"},
    {0x2fc12fc1, "ZFS"},   {0xca451a4e, "bcachefs"},  {0xf2f52010, "F2FS"},
    {0x65735546, "FUSE"},  {0x794c7630, "overlayfs"}, {0x6969, "NFS"},
    {0xff534d42, "CIFS"},  {0xfe534d42, "SMB"},       {0x01021997, "9p"},
    {0x2011bab0, "exFAT"}, {0x4d44, "FAT"},           {0x7366746e, "NTFS"},
    {0x5346544e, "NTFS"},  {0x73717368, "squashfs"},  {0x9660, "ISO 9660"}};

uint64_t MagicOf(int descriptor) {
  struct statfs info;
  // f_type is a signed word on some machines, and the magic numbers have 32 bits.
  return fstatfs(descriptor, &info) == 0 ? static_cast<uint32_t>(info.f_type) : 0;
}

std::string Words(int error) { return std::generic_category().message(error); }

// What the kernel says about unbuffered access to an open file; `supported` is false where it says
// that there is none.
struct KernelSays {
  bool supported = true;
  uint64_t memory = 0;
  uint64_t offset = 0;
  uint64_t sector = 0;
};

KernelSays AskKernel(int descriptor) {
  KernelSays says;
#ifdef STATX_DIOALIGN  // Linux 6.1, and headers as young.
  struct statx info;
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
      (info.stx_mask & STATX_DIOALIGN) != 0) {
    says.memory = info.stx_dio_mem_align;
    says.offset = info.stx_dio_offset_align;
    says.supported = says.offset != 0;
  }
#endif
  int sector = 0;
  if (ioctl(descriptor, BLKSSZGET, &sector) == 0 && sector > 0) {
    says.sector = static_cast<uint64_t>(sector);
  }
  return says;
}

enum class Residency { kNotInMemory, kInMemory, kUnknown };

// Whether the page cache has the page at `offset`, a multiple of 64 KiB. Kernels answer "yes" for
// files that are not ours.
Residency ResidencyOf(int descriptor, uint64_t offset) {
  void* page = mmap(nullptr, 1, PROT_READ, MAP_SHARED, descriptor, static_cast<off_t>(offset));
  if (page == MAP_FAILED) return Residency::kUnknown;
  unsigned char resident = 0;
  const int result = mincore(page, 1, &resident);
  munmap(page, 1);
  if (result != 0) return Residency::kUnknown;
  return (resident & 1) != 0 ? Residency::kInMemory : Residency::kNotInMemory;
}

int64_t ReadOnce(int descriptor, std::span<std::byte> out, uint64_t offset) {
  ssize_t result;
  do {
    result = pread(descriptor, out.data(), out.size(), static_cast<off_t>(offset));
  } while (result < 0 && errno == EINTR);
  return result < 0 ? -errno : result;
}

// Pages that an unbuffered read brings into the page cache say that it was none. Asks at up to four
// places that were not there before; without such a place there is no answer: false.
bool BuffersSilently(int direct, int buffered, uint64_t size, std::span<std::byte> block) {
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t offset = size / 4 * i / 64_KiB * 64_KiB;
    if (ResidencyOf(buffered, offset) != Residency::kNotInMemory) continue;
    if (ReadOnce(direct, block, offset) <= 0) return false;
    if (ResidencyOf(buffered, offset) != Residency::kInMemory) return false;
    // Somebody else may have read it just now; hardly at a second place too.
    for (uint64_t j = i + 1; j < 4; ++j) {
      const uint64_t other = size / 4 * j / 64_KiB * 64_KiB;
      if (ResidencyOf(buffered, other) != Residency::kNotInMemory) continue;
      return ReadOnce(direct, block, other) > 0 &&
             ResidencyOf(buffered, other) == Residency::kInMemory;
    }
    return true;
  }
  return false;
}

DirectAccess None(std::string why_not) { return {.why_not = std::move(why_not)}; }

// The least alignment from `alignment` on at which a read of the first block succeeds.
DirectAccess Probe(int direct, int buffered, uint64_t size, uint64_t alignment) {
  for (;; alignment *= 2) {
    auto block = AlignedBuffer::Allocate(alignment, alignment);
    if (!block.has_value()) return None("could not be tried: " + block.error().message());
    const int64_t result = ReadOnce(direct, block->bytes(), 0);
    if (result == -EINVAL && alignment < kMostTried) continue;
    if (result < 0)
      return None("failed the first unbuffered read: " + Words(-static_cast<int>(result)));
    if (static_cast<uint64_t>(result) < std::min(size, alignment)) {
      return None(fmt::format("gave {} bytes in the first unbuffered read, expected {}", result,
                              std::min(size, alignment)));
    }
    if (BuffersSilently(direct, buffered, size, block->bytes())) {
      return None("accepts unbuffered reads, but they go through the page cache all the same");
    }
    return {.descriptor = direct, .alignment = alignment};
  }
}

}  // namespace

std::string_view FileSystemName(uint64_t magic) {
  for (const auto& [number, name] : kFileSystems) {
    if (number == magic) return name;
  }
  return "an unknown file system";
}

uint64_t CombineAlignments(uint64_t memory, uint64_t offset, uint64_t sector) {
  uint64_t alignment = kLeastAlignment;
  for (const uint64_t asked : {memory, offset, sector}) {
    if (asked != 0 && !std::has_single_bit(asked)) return 0;
    alignment = std::max(alignment, asked);
  }
  return alignment;
}

DirectAccess OpenDirect(const Path& path, int buffered, uint64_t size, uint64_t max_alignment) {
  struct stat expected;
  struct stat found;
  if (fstat(buffered, &expected) != 0) return None("cannot be examined: " + Words(errno));
  // Memory is all there is below these, and new kernels accept the flag and ignore it.
  const uint64_t magic = MagicOf(buffered);
  const std::string_view file_system = FileSystemName(magic);
  if (S_ISREG(expected.st_mode) &&
      (file_system == "tmpfs" || file_system == "ramfs" || file_system == "hugetlbfs")) {
    return None(fmt::format("lies on {}, that is in memory", file_system));
  }
#ifdef O_DIRECT
  const int direct = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
#else
  const int direct = -1;
  errno = EOPNOTSUPP;
#endif
  if (direct < 0) {
    return None(
        fmt::format("lies on {}, which refuses unbuffered access: {}", file_system, Words(errno)));
  }
  DirectAccess access;
  const KernelSays says = AskKernel(direct);
  const uint64_t alignment = CombineAlignments(says.memory, says.offset, says.sector);
  if (fstat(direct, &found) != 0 || found.st_dev != expected.st_dev ||
      found.st_ino != expected.st_ino) {
    access = None("was replaced while it was opened");
  } else if (!says.supported) {
    access = None(fmt::format("lies on {}, which has no unbuffered access to it", file_system));
  } else if (alignment == 0) {
    access =
        None(fmt::format("asks for unbuffered reads at multiples of {} and {} bytes, which is "
                         "no power of two",
                         says.memory, std::max(says.offset, says.sector)));
  } else if (size == 0) {
    access = {.descriptor = direct, .alignment = alignment};
  } else {
    access = Probe(direct, buffered, size, alignment);
  }
  if (access.alignment > max_alignment) {
    access =
        None(fmt::format("needs unbuffered reads at multiples of {0} bytes, but was laid out "
                         "for {1}: repack it with --block-size {0}",
                         access.alignment, max_alignment));
  }
  if (access.alignment == 0) close(direct);
  return access;
}

}  // namespace picchio
