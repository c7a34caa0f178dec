#include "apps/pack/store_facts.h"

#include <algorithm>
#include <vector>

namespace picchio {

Result<FlatIndex> PlaceStore(const ModelConfig& config, PayloadKind kind,
                             const StoreOptions& options) {
  const bool v2 = options.version == RecordVersion::kV2;
  if (v2 && kind != PayloadKind::kInt4) {
    return Error(Code::kUnsupported,
                 "a store of version 2 holds INT4 experts, and this model's are {}: use version 3",
                 PayloadKindName(kind));
  }
  FlatSuperblock facts;
  facts.version = options.version;
  facts.block_size = options.block_size;
  facts.hidden_size = config.hidden_size;
  facts.num_layers = config.num_hidden_layers;
  facts.num_experts = config.num_experts;
  facts.experts_per_token = config.experts_per_token;
  facts.intermediate_size = config.moe_intermediate_size;
  facts.kind = kind;
  facts.has_biases = !v2 && config.expert_bias;
  std::vector<bool> present(facts.num_places());
  for (uint32_t layer = 0; layer < std::min(config.num_hidden_layers, options.num_layers);
       ++layer) {
    if (!config.layers[layer].moe) continue;
    const auto first = present.begin() + static_cast<ptrdiff_t>(layer) * config.num_experts;
    std::fill_n(first, config.num_experts, true);
  }
  if (std::ranges::find(present, true) == present.end()) {
    return Error(Code::kInvalidArgument, "the first {} layers of the model have no experts",
                 std::min(config.num_hidden_layers, options.num_layers));
  }
  return FlatIndex::Place(facts, present);
}

}  // namespace picchio
