// Aligned stores for tests: the experts of TestRecord as format/flat_test_support.h writes them.
#pragma once

#include <string>

#include "experts/records_test_support.h"
#include "format/flat_test_support.h"

namespace picchio {

// What the stores of the sources' tests hold: layers 1 to 3, as after a dense layer, of 7 experts.
inline constexpr int kStoreFirstLayer = 1;
inline constexpr int kStoreEndLayer = 4;
inline constexpr int kStoreExperts = 7;

// Experts [0, num_experts) of layers [first_layer, end_layer) of a model with `end_layer` layers.
inline TestStore StoreOf(const ExpertRecordLayout& layout, int first_layer, int end_layer,
                         int num_experts) {
  TestStore store;
  store.version = static_cast<uint32_t>(layout.version);
  store.hidden = layout.hidden_size;
  store.moe_inter = layout.intermediate_size;
  store.n_layers = static_cast<uint32_t>(end_layer);
  store.n_experts = static_cast<uint32_t>(num_experts);
  store.payload_kind = static_cast<uint32_t>(layout.kind);
  store.flags = layout.down_bias.bytes > 0 ? 1 : 0;
  for (int layer = first_layer; layer < end_layer; ++layer) {
    for (int expert = 0; expert < num_experts; ++expert) {
      const std::vector<std::byte> record = TestRecord({layer, expert}, layout);
      store.records[{layer, expert}] =
          std::string(reinterpret_cast<const char*>(record.data()), record.size());
    }
  }
  return store;
}

}  // namespace picchio
