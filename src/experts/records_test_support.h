// Records for tests: every byte says which expert and which place it belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "experts/expert_source.h"
#include "experts/memory_expert_source.h"

namespace picchio {

// INT4 in version 2: what a Qwen3-like model of these sizes has, packed.
inline ExpertRecordLayout Int4TestLayout(uint32_t hidden_size = 64,
                                         uint32_t intermediate_size = 32) {
  ExpertRecordLayout layout;
  layout.hidden_size = hidden_size;
  layout.intermediate_size = intermediate_size;
  const uint64_t weights = uint64_t{hidden_size} * intermediate_size;
  const auto append = [&layout](RecordPart& part, uint64_t bytes) {
    part = {.offset = layout.record_bytes, .bytes = bytes};
    layout.record_bytes += bytes;
  };
  append(layout.gate_up, weights);  // Two matrices of half a byte a weight.
  append(layout.gate_up_scales, uint64_t{2} * intermediate_size * ((hidden_size + 63) / 64) * 4);
  append(layout.down, weights / 2);
  append(layout.down_scales, uint64_t{hidden_size} * ((intermediate_size + 63) / 64) * 4);
  return layout;
}

inline std::vector<std::byte> TestRecord(ExpertKey key, uint64_t bytes) {
  std::vector<std::byte> record(bytes);
  uint64_t state = std::hash<ExpertKey>()(key) | 1;
  for (std::byte& byte : record) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator.
    byte = static_cast<std::byte>(state >> 56);
  }
  return record;
}

// Experts [0, num_experts) of layers [0, num_layers).
inline MemoryExpertSource::Records TestRecords(const ExpertRecordLayout& layout, int num_layers,
                                               int num_experts) {
  MemoryExpertSource::Records records;
  for (int layer = 0; layer < num_layers; ++layer) {
    for (int expert = 0; expert < num_experts; ++expert) {
      const ExpertKey key{layer, expert};
      records.emplace(key, TestRecord(key, layout.record_bytes));
    }
  }
  return records;
}

}  // namespace picchio
