#include "format/flat_model.h"

#include <algorithm>

namespace picchio {
namespace {

Status CheckSize(const char* name, uint64_t store, uint64_t model) {
  if (store == model) return Status::Ok();
  return Error(Code::kCorrupt, "is the store of another model: {} is {}, the model has {}", name,
               store, model);
}

Status CheckShape(const FlatSuperblock& store, const FlatModel& model) {
  PICCHIO_RETURN_IF_ERROR(CheckSize("hidden", store.hidden_size, model.hidden_size));
  PICCHIO_RETURN_IF_ERROR(CheckSize("n_layers", store.num_layers, model.moe_layers.size()));
  PICCHIO_RETURN_IF_ERROR(CheckSize("n_experts", store.num_experts, model.num_experts));
  PICCHIO_RETURN_IF_ERROR(CheckSize("topk", store.experts_per_token, model.experts_per_token));
  PICCHIO_RETURN_IF_ERROR(CheckSize("moe_inter", store.intermediate_size, model.intermediate_size));
  if (store.kind != model.kind) {
    return Error(Code::kCorrupt, "is the store of another quantisation: it holds {}, the model {}",
                 PayloadKindName(store.kind), PayloadKindName(model.kind));
  }
  if (store.has_biases && !model.has_biases) {
    return Error(Code::kCorrupt,
                 "is the store of another model: its experts have biases, the model's have none");
  }
  return Status::Ok();
}

Status CheckConversion(const FlatIndex& index, const FlatModel& model, bool trust_unlisted) {
  const FlatSuperblock& store = index.superblock();
  if (store.version == RecordVersion::kV3) {
    if (store.model_id == model.id) return Status::Ok();
    return Error(Code::kCorrupt,
                 "is the store of another conversion: its model id is {}, the model's {}",
                 store.model_id.Hex(), model.id.Hex());
  }
  const bool listed = std::ranges::any_of(model.stores, [&](const ManifestStore& listing) {
    return listing.index_sha256 == store.index_sha256 && listing.bytes == index.store_bytes();
  });
  if (listed || trust_unlisted) return Status::Ok();
  return Error(Code::kUnsupported,
               "is not a store that the model's manifest lists: its index has the SHA-256 {}; it "
               "may be of another conversion",
               store.index_sha256.Hex());
}

Status Check(const FlatIndex& index, const FlatModel& model, bool trust_unlisted) {
  PICCHIO_RETURN_IF_ERROR(CheckShape(index.superblock(), model));
  PICCHIO_RETURN_IF_ERROR(CheckConversion(index, model, trust_unlisted));
  for (size_t layer = 0; layer < model.moe_layers.size(); ++layer) {
    if (model.moe_layers[layer]) continue;
    for (uint32_t expert = 0; expert < model.num_experts; ++expert) {
      if (index.Find(static_cast<int64_t>(layer), expert) == nullptr) continue;
      return Error(Code::kCorrupt,
                   "is the store of another model: it has experts in layer {}, where the model has "
                   "none",
                   layer);
    }
  }
  return Status::Ok();
}

}  // namespace

Status CheckFlatModel(const FlatIndex& index, const FlatModel& model, bool trust_unlisted,
                      std::string_view where) {
  Status status = Check(index, model, trust_unlisted);
  if (status.ok()) return status;
  return Error(status.code(), "{} {}", where, status.message());
}

}  // namespace picchio
