#include "kernels/quantized_rows.h"

#include "base/check.h"
#include "base/units.h"

namespace picchio {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kLanes = 8;

struct Layout {
  Layout(ActivationKind kind, size_t cols)
      : num_groups(CeilDiv(cols, GroupSize(kind))),
        offsets_at(RoundUp(num_groups * GroupSize(kind), kAlignment)),
        scales_at(RoundUp(offsets_at + num_groups * kLanes * sizeof(int32_t), kAlignment)),
        row_bytes(RoundUp(scales_at + num_groups * sizeof(float), kAlignment)) {}

  size_t num_groups;
  size_t offsets_at;
  size_t scales_at;
  size_t row_bytes;
};

}  // namespace

QuantizedRows::QuantizedRows(ActivationKind kind, size_t cols, size_t num_rows, std::byte* memory)
    : kind_(kind), cols_(cols), num_rows_(num_rows), memory_(memory) {
  PICCHIO_CHECK(reinterpret_cast<uintptr_t>(memory) % kAlignment == 0);
  const Layout layout(kind, cols);
  num_groups_ = layout.num_groups;
  offsets_at_ = layout.offsets_at;
  scales_at_ = layout.scales_at;
  row_bytes_ = layout.row_bytes;
}

size_t QuantizedRows::BytesFor(ActivationKind kind, size_t cols, size_t num_rows) {
  return Layout(kind, cols).row_bytes * num_rows;
}

QuantizedRows QuantizedRows::Slice(size_t first, size_t count) const {
  PICCHIO_CHECK(first <= num_rows_ && count <= num_rows_ - first);
  QuantizedRows slice = *this;
  slice.num_rows_ = count;
  slice.memory_ = memory_ + first * row_bytes_;
  return slice;
}

}  // namespace picchio
