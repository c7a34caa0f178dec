#include "io/block_device.h"

namespace picchio {

Status CheckAlignment(const DeviceRead& read, uint64_t alignment, uint64_t file_bytes,
                      std::string_view name) {
  const uint64_t address = reinterpret_cast<uintptr_t>(read.out.data());
  const uint64_t bytes = read.out.size();
  const bool to_the_end = bytes <= file_bytes && read.offset == file_bytes - bytes;
  if (read.offset % alignment == 0 && address % alignment == 0 &&
      (bytes % alignment == 0 || to_the_end)) {
    return Status::Ok();
  }
  return Error(
      Code::kInvalidArgument,
      "a read of {} bytes at byte {} of {} into address {:#x}: all three must be multiples "
      "of {}",
      bytes, read.offset, name, address, alignment);
}

}  // namespace picchio
