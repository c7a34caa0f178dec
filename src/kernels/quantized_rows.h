// Activations quantised to 8 bits, laid out as the products read them.
//
// What the files of the instruction sets call is inlined always, as in kernels/float_bits.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace picchio {

// The weights that quantised activations are meant for: these decide the group size and the order
// of the codes within a group.
enum class ActivationKind : uint8_t { kForInt4, kForInt8, kForMxfp4 };

// Elements that share a scale.
[[gnu::always_inline]] constexpr size_t GroupSize(ActivationKind kind) {
  return kind == ActivationKind::kForMxfp4 ? 32 : 64;
}

// What is added to weights of a kind to make them unsigned: 0..15, 1..255, and 0..24 for twice
// E2M1.
[[gnu::always_inline]] constexpr int32_t WeightBias(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kForInt4:
      return 8;
    case ActivationKind::kForInt8:
      return 128;
    case ActivationKind::kForMxfp4:
      return 12;
  }
  return 0;
}

// A view of rows of quantised activations; the caller owns the memory. Copies refer to the same
// rows. docs/arithmetic.md defines codes and scales; what else is stored follows from them:
//
//   codes    int8 [groups, G]: for INT4 and MXFP4 weights the even elements of each group, then the
//            odd ones, as nibbles unpack; for INT8 weights in natural order. A short last group is
//            padded by zeros (each half of it, where evens and odds are apart).
//   offsets  int32 [groups, 8]: what to add to the eight lanes of a product whose weights were made
//            unsigned: -WeightBias times the sum of the codes that the lane takes.
//   scales   F32 [groups].
class QuantizedRows {
 public:
  QuantizedRows() = default;

  // `memory` holds at least BytesFor(kind, cols, num_rows) bytes, starts at a multiple of 64 and
  // outlives the view.
  QuantizedRows(ActivationKind kind, size_t cols, size_t num_rows, std::byte* memory);

  // The caller knows that it does not overflow: about 1.6 (2.2 for MXFP4) bytes per element.
  static size_t BytesFor(ActivationKind kind, size_t cols, size_t num_rows);

  [[gnu::always_inline]] ActivationKind kind() const { return kind_; }
  [[gnu::always_inline]] size_t cols() const { return cols_; }
  [[gnu::always_inline]] size_t num_rows() const { return num_rows_; }
  [[gnu::always_inline]] size_t num_groups() const { return num_groups_; }

  // Rows [first, first + count) of this one.
  QuantizedRows Slice(size_t first, size_t count) const;

  [[gnu::always_inline]] int8_t* codes(size_t row) const {
    return reinterpret_cast<int8_t*>(memory_ + row * row_bytes_);
  }
  [[gnu::always_inline]] int32_t* offsets(size_t row) const {
    return reinterpret_cast<int32_t*>(memory_ + row * row_bytes_ + offsets_at_);
  }
  [[gnu::always_inline]] float* scales(size_t row) const {
    return reinterpret_cast<float*>(memory_ + row * row_bytes_ + scales_at_);
  }

  // Where element `i` of a row has its code.
  static size_t CodeIndex(ActivationKind kind, size_t i) {
    const size_t group_size = GroupSize(kind);
    const size_t in_group = i % group_size;
    if (kind == ActivationKind::kForInt8) return i;
    return i - in_group + in_group / 2 + (in_group % 2) * (group_size / 2);
  }

 private:
  ActivationKind kind_ = ActivationKind::kForInt4;
  size_t cols_ = 0;
  size_t num_rows_ = 0;
  size_t num_groups_ = 0;
  size_t offsets_at_ = 0;  // Bytes from the row's start.
  size_t scales_at_ = 0;
  size_t row_bytes_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace picchio
