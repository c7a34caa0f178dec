// Whether an aligned expert store belongs to a model.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "format/flat_index.h"
#include "format/manifest.h"

namespace picchio {

// What a converted model says of itself: its config, and its manifest.
struct FlatModel {
  uint32_t hidden_size = 0;
  uint32_t num_experts = 0;
  uint32_t experts_per_token = 0;
  uint32_t intermediate_size = 0;  // Of one expert.
  std::vector<bool> moe_layers;    // [num_hidden_layers]: the layers that have experts.
  PayloadKind kind = PayloadKind::kInt4;
  bool has_biases = false;
  ModelId id;
  std::vector<ManifestStore> stores;
};

// Fails, naming the field, where the store is of another model, quantisation or conversion: with
// kCorrupt where the two contradict each other, with kUnsupported where a store of version 2 is not
// listed in the manifest, which is all that ties it to a conversion; `trust_unlisted` takes it
// nevertheless. `where` is what messages call the store. A record without the biases that the model
// has is in order: they stay in the dense part.
Status CheckFlatModel(const FlatIndex& index, const FlatModel& model, bool trust_unlisted,
                      std::string_view where);

}  // namespace picchio
