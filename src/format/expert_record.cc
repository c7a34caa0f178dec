#include "format/expert_record.h"

#include "base/units.h"
#include "format/int4.h"
#include "format/mxfp4.h"

namespace picchio {
namespace {

constexpr uint32_t kMaxSize = 1U << 20;
constexpr uint64_t kPartAlignment = 64;  // Of version 3.

// The bytes of one row of `cols` weights, and of its scales.
struct RowBytes {
  uint64_t weights;
  uint64_t scales;
};

RowBytes RowBytesOf(PayloadKind kind, uint64_t cols) {
  switch (kind) {
    case PayloadKind::kInt4:
      return {cols / 2, Int4GroupsPerRow(cols) * sizeof(float)};
    case PayloadKind::kMxfp4:
      return {cols / 2, cols / kMxfp4Block};
    default:
      return {cols * 2, 0};
  }
}

Status CheckRow(PayloadKind kind, const char* name, uint32_t cols) {
  if (cols == 0 || cols > kMaxSize) {
    return Error(Code::kUnsupported, "{} is {}; an expert record holds 1 to {}", name, cols,
                 kMaxSize);
  }
  if (kind == PayloadKind::kInt4 && cols % 2 != 0) {
    return Error(Code::kUnsupported, "{} is {}; INT4 experts need an even number", name, cols);
  }
  if (kind == PayloadKind::kMxfp4 && cols % kMxfp4Block != 0) {
    return Error(Code::kUnsupported, "{} is {}; MXFP4 experts need a multiple of {}", name, cols,
                 kMxfp4Block);
  }
  return Status::Ok();
}

}  // namespace

std::string_view PayloadKindName(PayloadKind kind) {
  switch (kind) {
    case PayloadKind::kInt4:
      return "INT4";
    case PayloadKind::kMxfp4:
      return "MXFP4";
    case PayloadKind::kBf16:
      break;
  }
  return "BF16";
}

Result<ExpertRecordLayout> ExpertRecordLayout::Make(PayloadKind kind, RecordVersion version,
                                                    uint32_t hidden_size,
                                                    uint32_t intermediate_size, bool has_biases) {
  if (kind != PayloadKind::kInt4 && kind != PayloadKind::kMxfp4 && kind != PayloadKind::kBf16) {
    return Error(Code::kUnsupported, "payload kind {} is not one of 0 (INT4), 1 (MXFP4), 2 (BF16)",
                 static_cast<unsigned>(kind));
  }
  if (version == RecordVersion::kV2 && (kind != PayloadKind::kInt4 || has_biases)) {
    return Error(Code::kUnsupported,
                 "expert records of version 2 hold INT4 without biases; use version 3");
  }
  PICCHIO_RETURN_IF_ERROR(CheckRow(kind, "hidden_size", hidden_size));
  PICCHIO_RETURN_IF_ERROR(CheckRow(kind, "intermediate_size", intermediate_size));

  ExpertRecordLayout layout;
  layout.kind = kind;
  layout.version = version;
  layout.hidden_size = hidden_size;
  layout.intermediate_size = intermediate_size;
  const auto place = [&](RecordPart& part, uint64_t bytes) {
    if (bytes == 0) return;
    part.offset = version == RecordVersion::kV2 ? layout.record_bytes
                                                : RoundUp(layout.record_bytes, kPartAlignment);
    part.bytes = bytes;
    layout.record_bytes = part.offset + bytes;
  };
  // At most 2^21 rows of 2^21 bytes: far from wrapping.
  const uint64_t gate_up_rows = uint64_t{2} * intermediate_size;
  const uint64_t down_rows = hidden_size;
  const RowBytes gate_up = RowBytesOf(kind, hidden_size);
  const RowBytes down = RowBytesOf(kind, intermediate_size);
  place(layout.gate_up, gate_up_rows * gate_up.weights);
  place(layout.gate_up_scales, gate_up_rows * gate_up.scales);
  place(layout.down, down_rows * down.weights);
  place(layout.down_scales, down_rows * down.scales);
  if (has_biases) {
    place(layout.gate_up_bias, gate_up_rows * sizeof(float));
    place(layout.down_bias, down_rows * sizeof(float));
  }
  return layout;
}

}  // namespace picchio
