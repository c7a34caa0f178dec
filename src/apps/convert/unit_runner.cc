#include "apps/convert/unit_runner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/printable.h"
#include "base/units.h"
#include "format/finite.h"
#include "format/int8.h"
#include "format/mxfp4.h"

namespace picchio {
namespace {

// Large enough for the device and the hash to run at their speed. A thread has at most four buffers
// of this size (in, its scales, decoded, out) beside the scales of one matrix, so that even 256
// threads stay well below the 2 GiB that a conversion may take.
constexpr uint64_t kBlockBytes = 1_MiB;

bool FromMxfp4(const ConversionUnit& unit) { return unit.sources.front().scales != nullptr; }

// Bytes of one source row.
uint64_t SourceRowBytes(const ConversionUnit& unit) {
  if (FromMxfp4(unit)) return unit.cols / 2;
  return unit.cols * DtypeBytes(unit.sources.front().tensor->dtype);
}

uint64_t OutputRowBytes(const ConversionUnit& unit, Dtype output_dtype) {
  if (unit.coding == Coding::kInt4) return unit.cols / 2;
  return unit.cols * DtypeBytes(output_dtype);
}

uint64_t ScalesPerRow(const ConversionUnit& unit) {
  if (unit.coding == Coding::kInt4) return Int4GroupsPerRow(unit.cols);
  return unit.coding == Coding::kInt8 ? 1 : 0;
}

// Bytes of a vector are aligned for every element type.
template <typename T>
std::span<T> As(std::vector<std::byte>& bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace

Status UnitRunner::ReadRows(const TensorEntry& tensor, uint64_t first_row, uint64_t num_rows,
                            uint64_t row_bytes, std::vector<std::byte>& into) {
  into.resize(num_rows * row_bytes);
  return checkpoint_.ReadAt(tensor, first_row * row_bytes, into);
}

Result<UnitResult> UnitRunner::Run(const ConversionUnit& unit, const WriteOutput& write,
                                   const std::function<void(uint64_t)>& on_progress,
                                   const std::atomic<bool>& stop) {
  const OutputTensor& output = plan_.tensors[unit.output_idx];
  const uint64_t row_bytes = OutputRowBytes(unit, output.dtype);
  // The widest of the buffers that a row passes through, decoded to F32 among them.
  const uint64_t widest_row =
      std::max({row_bytes, SourceRowBytes(unit), unit.cols * sizeof(float), uint64_t{1}});
  const uint64_t rows_per_block = std::max<uint64_t>(1, kBlockBytes / widest_row);
  uint64_t total_rows = 0;
  for (const SourceRows& rows : unit.sources) total_rows += rows.num_rows;
  scales_.resize(total_rows * ScalesPerRow(unit));

  UnitResult result;
  Sha256 hash;
  uint64_t output_row = 0;
  for (const SourceRows& rows : unit.sources) {
    for (uint64_t row = 0; row < rows.num_rows; row += rows_per_block) {
      if (stop.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "stopped");
      const uint64_t num_rows = std::min(rows_per_block, rows.num_rows - row);
      out_.resize(num_rows * row_bytes);
      PICCHIO_RETURN_IF_ERROR(CodeBlock(unit, rows, row, num_rows, output_row, result.error));
      hash.Update(out_);
      PICCHIO_RETURN_IF_ERROR(write(unit.output_idx, output_row * row_bytes, out_));
      output_row += num_rows;
      on_progress(num_rows * unit.source_bytes / total_rows);
    }
  }
  result.output = hash.Finish();
  if (unit.scales_output_idx.has_value()) {
    const auto bytes = std::as_bytes(std::span(scales_));
    result.scales = Sha256Of(bytes);
    PICCHIO_RETURN_IF_ERROR(write(*unit.scales_output_idx, 0, bytes));
  }
  return result;
}

Status UnitRunner::CodeBlock(const ConversionUnit& unit, const SourceRows& rows, uint64_t row,
                             uint64_t num_rows, uint64_t output_row, QuantError& error) {
  PICCHIO_RETURN_IF_ERROR(
      ReadRows(*rows.tensor, rows.first_row + row, num_rows, SourceRowBytes(unit), in_));
  if (FromMxfp4(unit)) {
    PICCHIO_RETURN_IF_ERROR(ReadRows(*rows.scales, rows.first_row + row, num_rows,
                                     unit.cols / kMxfp4Block, in_scales_));
    // A wrong scale is that tensor's fault, not the blocks'.
    const Status valid = CheckMxfp4Scales(in_scales_, unit.cols, rows.first_row + row);
    if (!valid.ok()) return valid.WithContext("tensor " + Quoted(rows.scales->name));
  }
  return CodeRead(unit, rows, row, num_rows, output_row, error)
      .WithContext("tensor " + Quoted(rows.tensor->name));
}

Status UnitRunner::CodeRead(const ConversionUnit& unit, const SourceRows& rows, uint64_t row,
                            uint64_t num_rows, uint64_t output_row, QuantError& error) {
  const uint64_t first = rows.first_row + row;
  const uint64_t cols = unit.cols;
  Dtype dtype = rows.tensor->dtype;
  std::span<const std::byte> weights = in_;
  if (FromMxfp4(unit)) {
    if (unit.coding == Coding::kMxfp4ToBf16) {
      return DecodeMxfp4(in_, in_scales_, cols, first, As<uint16_t>(out_));
    }
    decoded_.resize(num_rows * cols);
    PICCHIO_RETURN_IF_ERROR(DecodeMxfp4(in_, in_scales_, cols, first, decoded_));
    dtype = Dtype::kF32;
    weights = std::as_bytes(std::span(decoded_));
  }
  const auto scales =
      std::span(scales_).subspan(output_row * ScalesPerRow(unit), num_rows * ScalesPerRow(unit));
  switch (unit.coding) {
    case Coding::kInt4:
      return QuantizeInt4(scheme_, dtype, weights, cols, first, out_, scales, error);
    case Coding::kInt8:
      return QuantizeInt8(dtype, weights, cols, first, As<int8_t>(out_), scales, error);
    case Coding::kCopyE8m0:
      std::swap(in_, out_);
      return CheckMxfp4Scales(out_, cols * kMxfp4Block, first);
    case Coding::kWiden:
      PICCHIO_RETURN_IF_ERROR(CheckFinite(dtype, weights, cols, first));
      decoded_.resize(num_rows * cols);
      WidenToF32(dtype, weights, decoded_);
      std::ranges::copy(std::as_bytes(std::span(decoded_)), out_.begin());
      return Status::Ok();
    case Coding::kCopy:
    case Coding::kMxfp4ToBf16:
      break;
  }
  if (IsFloat(dtype)) PICCHIO_RETURN_IF_ERROR(CheckFinite(dtype, weights, cols, first));
  std::swap(in_, out_);
  return Status::Ok();
}

}  // namespace picchio
