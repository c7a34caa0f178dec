// Records for tests: bytes that say which expert they belong to, in every layout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "experts/expert_source.h"
#include "experts/memory_expert_source.h"

namespace picchio {

// The layouts that models come in. Sizes are small and odd: groups of 64 are not full, parts of
// version 3 need padding.
inline ExpertRecordLayout TestLayout(PayloadKind kind = PayloadKind::kInt4,
                                     RecordVersion version = RecordVersion::kV2,
                                     bool has_biases = false) {
  const bool blocks = kind == PayloadKind::kMxfp4;
  return ExpertRecordLayout::Make(kind, version, blocks ? 96 : 70, blocks ? 32 : 22, has_biases)
      .value();
}

// Weights and scales of any bytes, padding of zeros, biases that a BF16 can hold: a record as every
// source of the model that has this expert must deliver it.
inline std::vector<std::byte> TestRecord(ExpertKey key, const ExpertRecordLayout& layout) {
  std::vector<std::byte> record(layout.record_bytes);
  uint64_t state = std::hash<ExpertKey>()(key) | 1;
  const auto fill = [&](const RecordPart& part, bool widened_bf16) {
    for (uint64_t i = 0; i < part.bytes; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator.
      if (widened_bf16 && i % 4 < 2) continue;  // The low half of a little-endian F32.
      record[part.offset + i] = static_cast<std::byte>(state >> 56);
    }
  };
  fill(layout.gate_up, false);
  fill(layout.gate_up_scales, false);
  fill(layout.down, false);
  fill(layout.down_scales, false);
  fill(layout.gate_up_bias, true);
  fill(layout.down_bias, true);
  return record;
}

// Experts [0, num_experts) of layers [first_layer, end_layer).
inline MemoryExpertSource::Records TestRecords(const ExpertRecordLayout& layout, int first_layer,
                                               int end_layer, int num_experts) {
  MemoryExpertSource::Records records;
  for (int layer = first_layer; layer < end_layer; ++layer) {
    for (int expert = 0; expert < num_experts; ++expert) {
      const ExpertKey key{layer, expert};
      records.emplace(key, TestRecord(key, layout));
    }
  }
  return records;
}

inline std::unique_ptr<ExpertSource> TestMemorySource(const ExpertRecordLayout& layout,
                                                      int first_layer, int end_layer,
                                                      int num_experts, size_t max_in_flight = 64) {
  return MemoryExpertSource::Create(
             layout, TestRecords(layout, first_layer, end_layer, num_experts), max_in_flight)
      .value();
}

}  // namespace picchio
