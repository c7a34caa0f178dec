// One expert's record: where its weights, scales and biases lie in the contiguous bytes that a
// source delivers and a store keeps. Follows from the model's shape alone.
//
// gate_up is [2 * intermediate_size, hidden_size], down is [hidden_size, intermediate_size], rows
// contiguous. Part order: gate_up weights, gate_up scales, down weights, down scales, gate_up bias,
// down bias (the scales absent for BF16, the biases unless the record carries them).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace picchio {

// How an expert's matrices are coded; the numbers are those of the store's superblock.
enum class PayloadKind : uint16_t {
  kInt4 = 0,   // Nibbles in groups of 64, F32 scales.
  kMxfp4 = 1,  // Blocks of 32 E2M1 values (16 bytes), one E8M0 scale byte each.
  kBf16 = 2,   // Unquantised.
};

// "INT4", "MXFP4", "BF16": for messages.
std::string_view PayloadKindName(PayloadKind kind);

// How parts follow each other: packed as in store version 2, or each on a 64-byte boundary as in
// version 3, which alone may carry F32 biases.
enum class RecordVersion : uint8_t { kV2 = 2, kV3 = 3 };

struct RecordPart {
  uint64_t offset = 0;  // From the record's first byte.
  uint64_t bytes = 0;   // 0: the record has no such part.
};

struct ExpertRecordLayout {
  PayloadKind kind = PayloadKind::kInt4;
  RecordVersion version = RecordVersion::kV2;
  uint32_t hidden_size = 0;
  uint32_t intermediate_size = 0;
  RecordPart gate_up;
  RecordPart gate_up_scales;
  RecordPart down;
  RecordPart down_scales;
  RecordPart gate_up_bias;    // F32 [2 * intermediate_size]
  RecordPart down_bias;       // F32 [hidden_size]
  uint64_t record_bytes = 0;  // To the end of the last part; a store pads it to its block size.

  // Fails with kUnsupported where the kind cannot hold such rows (MXFP4 wants multiples of 32, INT4
  // an even number), where biases or another kind than INT4 are asked of version 2, or where a size
  // is 0 or over 2^20.
  static Result<ExpertRecordLayout> Make(PayloadKind kind, RecordVersion version,
                                         uint32_t hidden_size, uint32_t intermediate_size,
                                         bool has_biases);
};

}  // namespace picchio
