// NumPy's .npy files, format version 1.0 (numpy.lib.format): little-endian, C order. Read for test
// vectors and tools, written for logits and ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/status.h"

namespace picchio {

enum class NpyType : uint8_t { kF32, kF64, kI8, kU8, kU16, kI32, kU32, kI64 };

// The NpyType of a C++ type.
template <typename T>
constexpr NpyType NpyTypeOf();
template <>
constexpr NpyType NpyTypeOf<float>() {
  return NpyType::kF32;
}
template <>
constexpr NpyType NpyTypeOf<double>() {
  return NpyType::kF64;
}
template <>
constexpr NpyType NpyTypeOf<int8_t>() {
  return NpyType::kI8;
}
template <>
constexpr NpyType NpyTypeOf<uint8_t>() {
  return NpyType::kU8;
}
template <>
constexpr NpyType NpyTypeOf<uint16_t>() {
  return NpyType::kU16;
}
template <>
constexpr NpyType NpyTypeOf<int32_t>() {
  return NpyType::kI32;
}
template <>
constexpr NpyType NpyTypeOf<uint32_t>() {
  return NpyType::kU32;
}
template <>
constexpr NpyType NpyTypeOf<int64_t>() {
  return NpyType::kI64;
}

std::string_view NpyTypeName(NpyType type);  // "<f4", "|u1", ...: NumPy's own spelling.

// An array in memory.
class NpyArray {
 public:
  // Fails with kCorrupt where the header is malformed or does not describe exactly the file's
  // bytes, with kUnsupported where it is another version, type or order.
  static Result<NpyArray> Read(const RandomAccessFile& file);
  static Result<NpyArray> Load(const Path& path);

  NpyType type() const { return type_; }
  const std::vector<uint64_t>& shape() const { return shape_; }

  // All elements, last index fastest, valid as long as the array. Fails with kInvalidArgument where
  // the file has another type.
  template <typename T>
  Result<std::span<const T>> Values() const {
    if (type_ != NpyTypeOf<T>()) return WrongType(NpyTypeOf<T>());
    return std::span<const T>(reinterpret_cast<const T*>(data_.data()), data_.size() / sizeof(T));
  }

 private:
  Status WrongType(NpyType wanted) const;

  std::string name_;
  NpyType type_ = NpyType::kF32;
  std::vector<uint64_t> shape_;
  std::vector<std::byte> data_;
};

// Writes an F32 array row by row; how many there will be need not be known. The file appears with
// Finish. One thread at a time.
class NpyRowWriter {
 public:
  // Takes a new file; a row has the shape `row_shape`.
  NpyRowWriter(AtomicFile file, std::vector<uint64_t> row_shape);

  // Adds whole rows.
  Status Append(std::span<const float> rows);
  // Writes the header, shape [rows, row_shape...], and commits the file.
  Status Finish();

 private:
  AtomicFile file_;
  std::vector<uint64_t> shape_;  // [rows so far, row_shape...]
  uint64_t row_elements_;
  uint64_t header_bytes_;
};

}  // namespace picchio
