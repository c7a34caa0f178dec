#include "apps/inspect/inspect.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "apps/model_folder.h"
#include "apps/run/engine_setup.h"
#include "base/human.h"
#include "base/json.h"
#include "model/kv_cache.h"

namespace picchio {
namespace {

constexpr uint32_t kUsualContext = 8192;

MemoryRow RowFor(const Inspection& inspection, const EngineSetup& setup, uint64_t memory_bytes) {
  MemoryRow row{.memory_bytes = memory_bytes, .read_bytes_per_token = inspection.token_bytes};
  const Result<MemoryPlan> plan = setup.PlanFor(memory_bytes);
  if (!plan) return row;
  row.context = plan->context;
  row.num_slots = plan->num_slots;
  row.cached_share = std::min(1.0, static_cast<double>(plan->num_slots) /
                                       static_cast<double>(inspection.sizes.num_expert_records));
  row.read_bytes_per_token =
      static_cast<uint64_t>(static_cast<double>(inspection.token_bytes) * (1 - row.cached_share));
  return row;
}

std::string_view ExpertScheme(const Manifest& manifest) {
  for (const ManifestTensor& tensor : manifest.tensors) {
    if (IsExpertContainer(tensor.file) || IsInStore(manifest, tensor)) {
      return SchemeName(tensor.scheme);
    }
  }
  return "none";
}

// "30.53 B", "15.4 M".
std::string ParametersText(uint64_t count) {
  const auto n = static_cast<double>(count);
  return n >= 1e9 ? fmt::format("{:.2f} B", n / 1e9) : fmt::format("{:.1f} M", n / 1e6);
}

std::string Line(std::string_view name, const std::string& value) {
  return fmt::format("{:<18}{}\n", name, value);
}

}  // namespace

Result<Inspection> InspectModel(const Path& folder, const std::vector<uint64_t>& memory_bytes) {
  Inspection inspection;
  PICCHIO_ASSIGN_OR_RETURN(const std::unique_ptr<EngineSetup> setup, EngineSetup::Open(folder, {}));
  inspection.manifest = setup->folder().manifest;
  inspection.config = setup->config();
  inspection.sizes = SizesOf(inspection.config);
  inspection.expert_scheme = ExpertScheme(inspection.manifest);
  inspection.dense_bytes = setup->dense_bytes();
  inspection.record_bytes = setup->record_bytes();
  inspection.read_bytes = setup->read_bytes();
  inspection.expert_bytes = inspection.record_bytes * inspection.sizes.num_expert_records;
  inspection.token_bytes = inspection.read_bytes * inspection.sizes.records_per_token;
  inspection.context = std::min(kUsualContext, inspection.config.max_position_embeddings);
  inspection.kv_bytes = KvCache::BytesFor(inspection.config, inspection.context);
  for (const uint64_t bytes : memory_bytes) {
    inspection.memory.push_back(RowFor(inspection, *setup, bytes));
    // More memory than holds everything changes nothing more.
    if (inspection.memory.back().cached_share == 1) break;
  }
  return inspection;
}

std::string InspectionTable(const Inspection& inspection) {
  const ModelConfig& config = inspection.config;
  std::string out;
  out += Line("architecture", std::string(ArchitectureName(config.architecture)));
  out += Line("model id", inspection.manifest.model_id().Hex());
  out += Line("parameters", fmt::format("{}, {} active per token",
                                        ParametersText(inspection.sizes.total_parameters),
                                        ParametersText(inspection.sizes.active_parameters)));
  out += Line("layers", fmt::format("{} ({} MoE), hidden {}", config.num_hidden_layers,
                                    config.num_moe_layers(), config.hidden_size));
  out += Line("attention",
              fmt::format("{} heads of {}, {} for keys and values", config.num_attention_heads,
                          config.head_dim, config.num_key_value_heads));
  out += Line("experts",
              fmt::format("{} a layer, {} per token, inner width {}, {}", config.num_experts,
                          config.experts_per_token, config.moe_intermediate_size,
                          inspection.expert_scheme == "none" ? "bf16" : inspection.expert_scheme));
  out += Line("vocabulary", fmt::format("{}", config.vocab_size));
  out += Line("context", fmt::format("{} at most", config.max_position_embeddings));
  out += "\n";
  out += Line("dense weights", FormatMemory(inspection.dense_bytes) + ", always in memory");
  out += Line("expert records", fmt::format("{} of {} = {}", inspection.sizes.num_expert_records,
                                            FormatMemory(inspection.record_bytes),
                                            FormatMemory(inspection.expert_bytes)));
  out += Line("KV cache", fmt::format("{} for {} positions (F32)",
                                      FormatMemory(inspection.kv_bytes), inspection.context));
  out +=
      Line("uncached token", fmt::format("reads {} records, {}", inspection.sizes.records_per_token,
                                         FormatBytes(inspection.token_bytes)));
  out += "\n    free    context   experts cached      read per token if all are used evenly\n";
  for (const MemoryRow& row : inspection.memory) {
    if (row.num_slots == 0) {
      out += fmt::format("{:>10}  does not hold the dense weights and what a run needs\n",
                         FormatMemory(row.memory_bytes));
    } else {
      out += fmt::format("{:>10}  {:>7}  {:>7} ({:5.1f} %)  {:>12}\n",
                         FormatMemory(row.memory_bytes), row.context, row.num_slots,
                         100 * row.cached_share, FormatBytes(row.read_bytes_per_token));
    }
  }
  return out;
}

std::string InspectionJson(const Inspection& inspection) {
  const ModelConfig& config = inspection.config;
  Json json{{"architecture", ArchitectureName(config.architecture)},
            {"model_id", inspection.manifest.model_id().Hex()},
            {"total_parameters", inspection.sizes.total_parameters},
            {"active_parameters", inspection.sizes.active_parameters},
            {"num_hidden_layers", config.num_hidden_layers},
            {"num_moe_layers", config.num_moe_layers()},
            {"hidden_size", config.hidden_size},
            {"num_experts", config.num_experts},
            {"experts_per_token", config.experts_per_token},
            {"moe_intermediate_size", config.moe_intermediate_size},
            {"vocab_size", config.vocab_size},
            {"max_position_embeddings", config.max_position_embeddings},
            {"expert_scheme", inspection.expert_scheme},
            {"dense_bytes", inspection.dense_bytes},
            {"record_bytes", inspection.record_bytes},
            {"padded_record_bytes", inspection.read_bytes},
            {"num_records", inspection.sizes.num_expert_records},
            {"expert_bytes", inspection.expert_bytes},
            {"records_per_token", inspection.sizes.records_per_token},
            {"bytes_per_token", inspection.token_bytes},
            {"kv_bytes", inspection.kv_bytes},
            {"context", inspection.context},
            {"memory", Json::array()}};
  for (const MemoryRow& row : inspection.memory) {
    json["memory"].push_back({{"memory_bytes", row.memory_bytes},
                              {"context", row.context},
                              {"num_slots", row.num_slots},
                              {"cached_share", row.cached_share},
                              {"read_bytes_per_token", row.read_bytes_per_token}});
  }
  return json.dump(2) + "\n";
}

}  // namespace picchio
