// Large memory straight from the operating system: whole pages, touched once, huge where possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/status.h"

namespace picchio {

// Owns pages that are all backed by memory before anyone uses them, so that no later write faults
// and a shortage shows here and not in the middle of a run. They begin as zeros, at a page
// boundary; at a boundary of 2 MiB where there are at least as many bytes, since direct reads into
// scattered 4 KiB pages run at a fraction of the drive; huge_pages.h tells how much of it came out
// huge. A forked child does not see them. Move-only.
class PageMemory {
 public:
  PageMemory() = default;

  // Fails with kResourceExhausted, naming the sizes, where the machine has no such memory. From
  // 32 MiB on the size is rounded up to whole huge pages.
  static Result<PageMemory> Allocate(uint64_t size);

  PageMemory(PageMemory&& other) noexcept { *this = std::move(other); }
  PageMemory& operator=(PageMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~PageMemory();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  PageMemory(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  size_t size_ = 0;  // A multiple of the page size.
};

// The machine's memory, whatever of it is in use. Limits of a container may be tighter.
uint64_t PhysicalMemoryBytes();

}  // namespace picchio
