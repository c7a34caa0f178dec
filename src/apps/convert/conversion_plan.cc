#include "apps/convert/conversion_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "apps/model_folder.h"
#include "apps/pack/store_facts.h"
#include "base/printable.h"
#include "format/expert_container.h"
#include "format/mxfp4.h"
#include "format/safetensors.h"

namespace picchio {
namespace {

// Files begin their data on a page, so that a reader can use unbuffered I/O.
constexpr uint64_t kDataAlignment = 4096;

// Tensors that published checkpoints carry although they say nothing: rotary frequencies that
// follow from the config, and the head of a model whose head is its embedding.
bool IsRedundant(std::string_view name, const ModelConfig& config) {
  return name.ends_with(".rotary_emb.inv_freq") ||
         (config.tie_word_embeddings && name == "lm_head.weight");
}

class Planner {
 public:
  Planner(const ModelConfig& config, const TensorDirectory& checkpoint,
          const ConversionOptions& options)
      : config_(config), checkpoint_(checkpoint), options_(options) {
    plan_.experts = options.experts.value_or(config.checkpoint_experts_mxfp4 ? PayloadKind::kMxfp4
                                                                             : PayloadKind::kInt4);
  }

  Result<ConversionPlan> Plan() {
    PICCHIO_RETURN_IF_ERROR(CheckOptions());
    PICCHIO_RETURN_IF_ERROR(CheckTensors());
    BeginFile("dense.safetensors");
    for (const ExpectedTensor& tensor : ExpectedDenseTensors(config_)) {
      AddDense(tensor);
      plan_.groups.push_back(
          {.first_unit = plan_.units.size() - 1, .last_unit = plan_.units.size()});
    }
    if (plan_.store) {
      BeginFile(std::string(kFlatStoreName));
      plan_.files.back().bytes = plan_.store->store_bytes();
      plan_.store_file_idx = plan_.files.size() - 1;
    }
    for (uint32_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      if (!config_.layers[layer].moe) continue;
      if (options_.keep_safetensors) BeginFile(ExpertContainerName(layer));
      for (uint32_t expert = 0; expert < config_.num_experts; ++expert) {
        AddExpert(layer, expert);
      }
    }
    PICCHIO_RETURN_IF_ERROR(LayOutFiles());
    for (const ConversionUnit& unit : plan_.units) plan_.source_bytes += unit.source_bytes;
    // In the order of the source's bytes, so that reading is sequential.
    std::ranges::stable_sort(plan_.groups, {}, [this](const UnitGroup& group) {
      auto first = SourcePlace(plan_.units[group.first_unit]);
      for (size_t i = group.first_unit + 1; i < group.last_unit; ++i) {
        first = std::min(first, SourcePlace(plan_.units[i]));
      }
      return first;
    });
    return std::move(plan_);
  }

 private:
  Status CheckOptions() {
    if (plan_.experts == PayloadKind::kMxfp4 && !config_.checkpoint_experts_mxfp4) {
      return Error(Code::kInvalidArgument,
                   "--experts mxfp4 keeps the MXFP4 of a checkpoint, and this one has none: use "
                   "--experts int4 or bf16");
    }
    if (config_.num_moe_layers() == 0) return Status::Ok();
    PICCHIO_ASSIGN_OR_RETURN(
        plan_.store,
        PlaceStore(config_, plan_.experts, {.version = UsualStoreVersion(plan_.experts)}));
    return Status::Ok();
  }

  static std::tuple<size_t, uint64_t, uint64_t> SourcePlace(const ConversionUnit& unit) {
    const SourceRows& rows = unit.sources.front();
    return {rows.tensor->file_idx, rows.tensor->offset, rows.first_row};
  }

  // Every tensor that the config implies is there with its shape and a fitting type, and no other.
  Status CheckTensors() {
    std::set<std::string, std::less<>> expected_names;
    for (const ExpectedTensor& expected : ExpectedCheckpointTensors(config_)) {
      const TensorEntry* found = checkpoint_.Find(expected.name);
      if (found == nullptr) {
        return Error(Code::kCorrupt,
                     "tensor {} is missing: a {} with this config.json has it; is the download "
                     "complete?",
                     expected.name, ArchitectureName(config_.architecture));
      }
      if (found->shape != expected.shape) {
        return Error(Code::kCorrupt, "tensor {} has the shape {}, but config.json asks for {}",
                     expected.name, ShapeText(found->shape), ShapeText(expected.shape));
      }
      if (expected.packed ? found->dtype != Dtype::kU8 : !IsFloat(found->dtype)) {
        return Error(Code::kUnsupported, "tensor {} has the type {}, expected {}", expected.name,
                     DtypeName(found->dtype), expected.packed ? "U8" : "BF16, F16 or F32");
      }
      if (plan_.experts == PayloadKind::kBf16 && expected.tensor_class == TensorClass::kExpert &&
          !expected.packed && found->dtype != Dtype::kBf16) {
        return Error(Code::kUnsupported,
                     "tensor {} has the type {}: --experts bf16 keeps BF16 exactly and cannot hold "
                     "it; use --experts int4",
                     expected.name, DtypeName(found->dtype));
      }
      expected_names.insert(expected.name);
    }
    for (const TensorEntry& tensor : checkpoint_.tensors()) {
      if (!expected_names.contains(tensor.name) && !IsRedundant(tensor.name, config_)) {
        return Error(Code::kUnsupported,
                     "tensor {} is not part of a {} with this config.json; is it another model's, "
                     "or a misspelt name?",
                     Quoted(tensor.name), ArchitectureName(config_.architecture));
      }
    }
    return Status::Ok();
  }

  void AddDense(const ExpectedTensor& expected) {
    const TensorEntry* source = checkpoint_.Find(expected.name);
    const uint64_t rows = expected.shape[0];
    uint64_t cols = 1;
    for (size_t i = 1; i < expected.shape.size(); ++i) cols *= expected.shape[i];
    ConversionUnit unit{.tensor_class = expected.tensor_class,
                        .sources = {{.tensor = source, .num_rows = rows}},
                        .cols = cols,
                        .source_bytes = source->bytes};
    const bool head = expected.tensor_class == TensorClass::kEmbedding ||
                      expected.tensor_class == TensorClass::kHead;
    if (expected.quantizable && (head ? options_.int8_head : options_.int8_dense)) {
      unit.coding = Coding::kInt8;
      unit.output_idx = AddTensor(expected.name, Dtype::kI8, expected.shape, TensorScheme::kInt8);
      unit.scales_output_idx =
          AddTensor(expected.name + ".qs", Dtype::kF32, {rows}, TensorScheme::kInt8);
    } else if (source->dtype == Dtype::kF16) {
      unit.coding = Coding::kWiden;
      unit.output_idx = AddTensor(expected.name, Dtype::kF32, expected.shape, TensorScheme::kNone);
    } else {
      unit.output_idx =
          AddTensor(expected.name, source->dtype, expected.shape, TensorScheme::kNone);
    }
    plan_.units.push_back(std::move(unit));
  }

  // The two matrices of an expert, each with the tensors that the container keeps it in.
  void AddExpert(uint32_t layer, uint32_t expert) {
    const ExpertRecordLayout& layout = plan_.store->layout();
    UnitGroup group{.first_unit = plan_.units.size(), .record = RecordPlace{layer, expert}};
    const std::vector<ExpertTensor> tensors =
        ExpertTensors(layout, static_cast<int>(layer), static_cast<int>(expert));
    const auto [gate_up, down] = std::pair(std::span(tensors).first(tensors.size() / 2),
                                           std::span(tensors).last(tensors.size() / 2));
    AddExpertMatrix(layer, expert, true, gate_up);
    AddExpertMatrix(layer, expert, false, down);
    group.last_unit = plan_.units.size();
    for (const ExpertTensor& bias : ExpertBiasTensors(layout, static_cast<int>(layer),
                                                      static_cast<int>(config_.num_experts))) {
      group.biases.push_back({checkpoint_.Find(bias.name), expert, bias.part});
    }
    plan_.groups.push_back(std::move(group));
  }

  void AddExpertMatrix(uint32_t layer, uint32_t expert, bool gate_up,
                       std::span<const ExpertTensor> tensors) {
    const uint64_t width = config_.moe_intermediate_size;
    const uint64_t rows = gate_up ? 2 * width : config_.hidden_size;
    const uint64_t cols = gate_up ? config_.hidden_size : width;
    const std::string prefix = fmt::format("model.layers.{}.mlp.experts.", layer);

    ConversionUnit unit{.tensor_class = TensorClass::kExpert, .cols = cols};
    if (config_.checkpoint_experts_mxfp4) {
      const std::string packed = prefix + (gate_up ? "gate_up_proj" : "down_proj");
      unit.sources = {{checkpoint_.Find(packed + "_blocks"), expert * rows, rows,
                       checkpoint_.Find(packed + "_scales")}};
      unit.source_bytes = rows * (cols / 2 + cols / kMxfp4Block);
    } else {
      const auto whole = [&](const char* matrix) {
        const TensorEntry* tensor =
            checkpoint_.Find(fmt::format("{}{}.{}.weight", prefix, expert, matrix));
        unit.sources.push_back({.tensor = tensor, .num_rows = tensor->shape[0]});
        unit.source_bytes += tensor->bytes;
      };
      if (gate_up) {
        whole("gate_proj");
        whole("up_proj");
      } else {
        whole("down_proj");
      }
    }

    const uint64_t record_offset = plan_.store->Find(layer, expert)->offset;
    const auto add = [&](const ExpertTensor& tensor, TensorScheme scheme) {
      const size_t added = AddTensor(tensor.name, tensor.dtype, tensor.shape, scheme);
      plan_.tensors[added].store_offset = record_offset + tensor.part.offset;
      return added;
    };
    switch (plan_.experts) {
      case PayloadKind::kInt4: {
        const TensorScheme scheme = options_.quantizer == Int4Scheme::kAbsmax
                                        ? TensorScheme::kInt4Absmax
                                        : TensorScheme::kInt4Mse;
        unit.coding = Coding::kInt4;
        unit.output_idx = add(tensors[0], scheme);
        unit.scales_output_idx = add(tensors[1], scheme);
        break;
      }
      case PayloadKind::kBf16:
        unit.coding = config_.checkpoint_experts_mxfp4 ? Coding::kMxfp4ToBf16 : Coding::kCopy;
        unit.output_idx = add(tensors[0], TensorScheme::kNone);
        break;
      case PayloadKind::kMxfp4: {
        // Blocks and scales are two copies: bytes in, the same bytes out.
        ConversionUnit scales = unit;
        scales.coding = Coding::kCopyE8m0;
        scales.sources = {{unit.sources[0].scales, unit.sources[0].first_row, rows}};
        scales.cols = cols / kMxfp4Block;
        scales.source_bytes = rows * scales.cols;
        unit.coding = Coding::kCopy;
        unit.sources[0].scales = nullptr;
        unit.cols = cols / 2;
        unit.source_bytes = rows * unit.cols;
        unit.output_idx = add(tensors[0], TensorScheme::kMxfp4);
        scales.output_idx = add(tensors[1], TensorScheme::kMxfp4);
        plan_.units.push_back(std::move(unit));
        plan_.units.push_back(std::move(scales));
        return;
      }
    }
    plan_.units.push_back(std::move(unit));
  }

  void BeginFile(std::string name) { plan_.files.push_back({.name = std::move(name)}); }

  // Adds a tensor to the file that was begun last.
  size_t AddTensor(std::string name, Dtype dtype, std::vector<uint64_t> shape,
                   TensorScheme scheme) {
    plan_.tensors.push_back({.name = std::move(name),
                             .dtype = dtype,
                             .shape = std::move(shape),
                             .scheme = scheme,
                             .file_idx = plan_.files.size() - 1});
    return plan_.tensors.size() - 1;
  }

  Status LayOutFiles() {
    size_t next = 0;
    for (size_t file_idx = 0; file_idx < plan_.files.size(); ++file_idx) {
      OutputFile& file = plan_.files[file_idx];
      if (plan_.store && file_idx == plan_.store_file_idx) {
        for (; next < plan_.tensors.size() && plan_.tensors[next].file_idx == file_idx; ++next) {
          OutputTensor& tensor = plan_.tensors[next];
          tensor.offset = *std::exchange(tensor.store_offset, std::nullopt);
          tensor.bytes = DtypeBytes(tensor.dtype);
          for (const uint64_t size : tensor.shape) tensor.bytes *= size;
        }
        plan_.output_bytes += file.bytes;
        continue;
      }
      const size_t first = next;
      std::vector<TensorInfo> placed;
      for (; next < plan_.tensors.size() && plan_.tensors[next].file_idx == file_idx; ++next) {
        const OutputTensor& tensor = plan_.tensors[next];
        placed.push_back({.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
      }
      PICCHIO_ASSIGN_OR_RETURN(file.header, MakeSafetensorsHeader(placed, kDataAlignment));
      file.bytes = file.header.size();
      for (size_t i = 0; i < placed.size(); ++i) {
        plan_.tensors[first + i].offset = placed[i].offset;
        plan_.tensors[first + i].bytes = placed[i].bytes;
        file.bytes += placed[i].bytes;
      }
      plan_.output_bytes += file.bytes;
    }
    return Status::Ok();
  }

  const ModelConfig& config_;
  const TensorDirectory& checkpoint_;
  const ConversionOptions& options_;
  ConversionPlan plan_;
};

}  // namespace

Result<ConversionPlan> PlanConversion(const ModelConfig& config, const TensorDirectory& checkpoint,
                                      const ConversionOptions& options) {
  return Planner(config, checkpoint, options).Plan();
}

}  // namespace picchio
