#include "apps/inspect/inspect_store.h"

#include <fmt/format.h>

#include <cctype>
#include <string_view>

#include "base/human.h"
#include "base/json.h"
#include "experts/packed_expert_source.h"
#include "io/buffered_device.h"

namespace picchio {
namespace {

// As the flags of convert spell it.
std::string KindName(PayloadKind kind) {
  std::string name(PayloadKindName(kind));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

std::string_view RoleName(FlatRole role) {
  switch (role) {
    case FlatRole::kSingle:
      return "single";
    case FlatRole::kStripe:
      return "stripe";
    case FlatRole::kMirror:
      break;
  }
  return "mirror";
}

// Layers of which the store has an expert.
uint32_t LayersWithExperts(const FlatIndex& index) {
  uint32_t layers = 0;
  for (uint32_t layer = 0; layer < index.superblock().num_layers; ++layer) {
    uint32_t expert = 0;
    while (expert < index.superblock().num_experts && index.Find(layer, expert) == nullptr) {
      ++expert;
    }
    if (expert < index.superblock().num_experts) ++layers;
  }
  return layers;
}

std::string StoreLine(std::string_view name, const std::string& value) {
  return fmt::format("{:<18}{}\n", name, value);
}

}  // namespace

Result<FlatIndex> InspectStore(const Path& store) {
  PICCHIO_ASSIGN_OR_RETURN(const auto device,
                           BufferedDevice::Open({&store, 1}, {.num_threads = 1}));
  return ReadFlatIndex(*device);
}

std::string StoreTable(const FlatIndex& index) {
  const FlatSuperblock& store = index.superblock();
  const bool v2 = store.version == RecordVersion::kV2;
  std::string out;
  out +=
      StoreLine("format", fmt::format("version {}, blocks of {}", static_cast<int>(store.version),
                                      FormatMemory(store.block_size)));
  out +=
      StoreLine("model", fmt::format("{} layers of {} experts, {} per token, hidden {}, width {}",
                                     store.num_layers, store.num_experts, store.experts_per_token,
                                     store.hidden_size, store.intermediate_size));
  out += StoreLine("model id", v2 ? "none: version 2 is tied to its model by the manifest"
                                  : store.model_id.Hex());
  out += StoreLine("experts",
                   fmt::format("{} in {} layers, {}{}", store.num_entries, LayersWithExperts(index),
                               KindName(store.kind), store.has_biases ? " with biases" : ""));
  out += StoreLine("record",
                   fmt::format("{}, {} with its padding", FormatMemory(index.layout().record_bytes),
                               FormatMemory(index.padded_record_bytes())));
  out += StoreLine("store", fmt::format("{}, records from byte {}",
                                        FormatMemory(index.store_bytes()), store.data_offset()));
  out += StoreLine("index SHA-256", store.index_sha256.Hex());
  if (store.dense_bytes > 0) {
    out += StoreLine("dense image", fmt::format("{} at byte {}", FormatMemory(store.dense_bytes),
                                                store.dense_offset));
  }
  if (store.role != FlatRole::kSingle) {
    out += StoreLine("member",
                     fmt::format("{} of {} ({}), set {:02x}", store.member + 1, store.members,
                                 RoleName(store.role), fmt::join(store.set_id, "")));
  }
  return out;
}

std::string StoreJson(const FlatIndex& index) {
  const FlatSuperblock& store = index.superblock();
  Json json{{"format", static_cast<int>(store.version)},
            {"block_size", store.block_size},
            {"hidden_size", store.hidden_size},
            {"num_hidden_layers", store.num_layers},
            {"num_experts", store.num_experts},
            {"experts_per_token", store.experts_per_token},
            {"moe_intermediate_size", store.intermediate_size},
            {"kind", KindName(store.kind)},
            {"biases", store.has_biases},
            {"records", store.num_entries},
            {"layers_with_experts", LayersWithExperts(index)},
            {"record_bytes", index.layout().record_bytes},
            {"padded_record_bytes", index.padded_record_bytes()},
            {"index_offset", store.index_offset()},
            {"index_bytes", store.index_bytes()},
            {"data_offset", store.data_offset()},
            {"bytes", index.store_bytes()},
            {"index_sha256", store.index_sha256.Hex()}};
  if (store.version != RecordVersion::kV2) {
    json["model_id"] = store.model_id.Hex();
    json["role"] = RoleName(store.role);
    json["member"] = store.member;
    json["members"] = store.members;
    json["set_id"] = fmt::format("{:02x}", fmt::join(store.set_id, ""));
    json["dense_offset"] = store.dense_offset;
    json["dense_bytes"] = store.dense_bytes;
    json["weight_mb_per_s"] = store.weight;
  }
  return json.dump(2) + "\n";
}

}  // namespace picchio
