// Memory at an alignment of the caller's choice: weights, record buffers, bounce buffers.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace picchio {

// Owns `size` bytes that start at a multiple of the alignment. Move-only.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;

  // Fails with kResourceExhausted, naming the size, where the system has no such memory.
  // `alignment` is a power of two. The bytes are indeterminate.
  static Result<AlignedBuffer> Allocate(size_t size, size_t alignment) {
    AlignedBuffer buffer;
    if (size == 0) return buffer;
    buffer.data_ =
        static_cast<std::byte*>(::operator new(size, std::align_val_t(alignment), std::nothrow));
    if (buffer.data_ == nullptr) {
      return Error(Code::kResourceExhausted, "no memory for {} bytes", size);
    }
    buffer.size_ = size;
    buffer.alignment_ = alignment;
    return buffer;
  }

  AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(alignment_, other.alignment_);
    return *this;
  }
  ~AlignedBuffer() {
    if (data_ != nullptr) ::operator delete(data_, std::align_val_t(alignment_));
  }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // The buffer as an array of T; what does not fill a whole T at the end is left out.
  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), size_ / sizeof(T)};
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t alignment_ = 1;
};

}  // namespace picchio
