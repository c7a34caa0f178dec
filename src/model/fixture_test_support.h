// The golden fixtures of tests/data/fixtures, opened, and their experts as records in memory.
//
// Without GoogleTest, so that the program that is cross-compiled has the same; what cannot be
// opened is a fault of the repository and ends the program.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "experts/expert_cache.h"
#include "experts/memory_expert_source.h"
#include "format/expert_record.h"
#include "format/float16.h"
#include "format/int4.h"
#include "format/mxfp4.h"
#include "format/npy.h"
#include "format/tensor_directory.h"
#include "model/forward_pass.h"

namespace picchio {

struct Fixture {
  ModelConfig config;
  TensorDirectory tensors;
  Path golden;

  static Fixture Open(const Path& folder) {
    return {ModelConfig::Load(folder / "checkpoint").value(),
            TensorDirectory::OpenCheckpoint(folder / "checkpoint").value(), folder / "golden"};
  }

  template <typename T>
  std::vector<T> Golden(const std::string& name) const {
    const NpyArray array = NpyArray::Load(golden / Path(name + ".npy")).value();
    const std::span<const T> values = array.Values<T>().value();
    return {values.begin(), values.end()};
  }
  bool HasGolden(const std::string& name) const { return FileExists(golden / Path(name + ".npy")); }

  std::vector<std::byte> Bytes(const std::string& name) const {
    const TensorEntry* entry = tensors.Get(name).value();
    std::vector<std::byte> bytes(entry->bytes);
    PICCHIO_CHECK(tensors.Read(*entry, bytes).ok());
    return bytes;
  }
};

struct ExpertRecords {
  ExpertRecordLayout layout;
  MemoryExpertSource::Records records;
};

// Writes one expert's matrix, given as bytes of BF16, as `layout` wants it.
inline void PutBf16Matrix(const ExpertRecordLayout& layout, std::span<const std::byte> bf16,
                          size_t rows, const RecordPart& weights, const RecordPart& scales,
                          std::vector<std::byte>& record) {
  const size_t cols = bf16.size() / 2 / rows;
  if (layout.kind == PayloadKind::kBf16) {
    std::memcpy(record.data() + weights.offset, bf16.data(), bf16.size());
    return;
  }
  std::vector<float> group_scales(rows * Int4GroupsPerRow(cols));
  QuantError error;
  const Status status =
      QuantizeInt4(Int4Scheme::kAbsmax, Dtype::kBf16, bf16, cols, 0,
                   {record.data() + weights.offset, weights.bytes}, group_scales, error);
  PICCHIO_CHECK(status.ok());
  std::memcpy(record.data() + scales.offset, group_scales.data(), scales.bytes);
}

// The routed experts of a fixture: BF16 (MXFP4 decoded, exact), INT4 by the reference scheme, or
// MXFP4 as stored. `biases` puts those of gpt-oss into the records.
inline ExpertRecords MakeRecords(const Fixture& fixture, PayloadKind kind, bool biases = false) {
  const ModelConfig& config = fixture.config;
  const bool v2 = kind == PayloadKind::kInt4 && !biases;
  const ExpertRecordLayout layout =
      ExpertRecordLayout::Make(kind, v2 ? RecordVersion::kV2 : RecordVersion::kV3,
                               config.hidden_size, config.moe_intermediate_size, biases)
          .value();
  ExpertRecords result{layout, {}};
  const size_t gate_up_rows = 2 * size_t{config.moe_intermediate_size};
  const size_t down_rows = config.hidden_size;
  for (int layer = 0; layer < static_cast<int>(config.num_hidden_layers); ++layer) {
    if (!config.layers[layer].moe) continue;
    const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    for (int expert = 0; expert < static_cast<int>(config.num_experts); ++expert) {
      std::vector<std::byte> record(layout.record_bytes);
      const auto slice = [&](const std::string& name) {
        const std::vector<std::byte> all = fixture.Bytes(prefix + name);
        const size_t bytes = all.size() / config.num_experts;
        return std::vector<std::byte>(all.begin() + static_cast<ptrdiff_t>(expert * bytes),
                                      all.begin() + static_cast<ptrdiff_t>((expert + 1) * bytes));
      };
      const auto put_packed = [&](const std::string& name, size_t rows, size_t cols,
                                  const RecordPart& weights, const RecordPart& scales) {
        const std::vector<std::byte> blocks = slice(name + "_blocks");
        const std::vector<std::byte> exponents = slice(name + "_scales");
        if (kind == PayloadKind::kMxfp4) {
          std::memcpy(record.data() + weights.offset, blocks.data(), weights.bytes);
          std::memcpy(record.data() + scales.offset, exponents.data(), scales.bytes);
          return;
        }
        std::vector<uint16_t> decoded(rows * cols);
        PICCHIO_CHECK(DecodeMxfp4(blocks, exponents, cols, 0, decoded).ok());
        PutBf16Matrix(layout, std::as_bytes(std::span(decoded)), rows, weights, scales, record);
      };
      const auto put_bias = [&](const std::string& name, const RecordPart& part) {
        const std::vector<std::byte> bias = slice(name);
        WidenToF32(Dtype::kBf16, bias,
                   {reinterpret_cast<float*>(record.data() + part.offset), part.bytes / 4});
      };
      if (config.checkpoint_experts_mxfp4) {
        put_packed("gate_up_proj", gate_up_rows, config.hidden_size, layout.gate_up,
                   layout.gate_up_scales);
        put_packed("down_proj", down_rows, config.moe_intermediate_size, layout.down,
                   layout.down_scales);
        if (biases) {
          put_bias("gate_up_proj_bias", layout.gate_up_bias);
          put_bias("down_proj_bias", layout.down_bias);
        }
      } else {
        const std::string one = prefix + std::to_string(expert) + ".";
        std::vector<std::byte> gate_up = fixture.Bytes(one + "gate_proj.weight");
        const std::vector<std::byte> up = fixture.Bytes(one + "up_proj.weight");
        gate_up.insert(gate_up.end(), up.begin(), up.end());
        PutBf16Matrix(layout, gate_up, gate_up_rows, layout.gate_up, layout.gate_up_scales, record);
        PutBf16Matrix(layout, fixture.Bytes(one + "down_proj.weight"), down_rows, layout.down,
                      layout.down_scales, record);
      }
      result.records.emplace(ExpertKey{layer, expert}, std::move(record));
    }
  }
  return result;
}

// A model that is ready to step. The source may be wrapped on its way into the cache.
struct TestEngine {
  struct Options {
    int threads = 2;
    size_t num_slots = 64;
    size_t prefetch_slots = 0;
    bool overlap = true;
    size_t max_rows = 512;
    Compute compute = Compute::kF32;
    const Kernels* kernels = nullptr;
  };

  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Model> model;
  std::unique_ptr<ExpertCache> cache;
  std::unique_ptr<ForwardPass> pass;

  static TestEngine Make(const TensorDirectory& tensors, const ModelConfig& config,
                         std::unique_ptr<ExpertSource> source, const Options& options) {
    TestEngine engine;
    engine.pool = std::make_unique<ThreadPool>(options.threads);
    const bool biases = config.expert_bias && source->layout().gate_up_bias.bytes == 0;
    engine.model =
        std::make_unique<Model>(Model::Open(tensors, config, biases, *engine.pool).value());
    engine.cache =
        ExpertCache::Create(std::move(source), {.num_slots = options.num_slots,
                                                .prefetch_slots = options.prefetch_slots,
                                                .experts_per_token = config.experts_per_token,
                                                .overlap = options.overlap})
            .value();
    engine.pass =
        ForwardPass::Create(
            *engine.model, *engine.cache, *engine.pool,
            {.max_rows = options.max_rows, .compute = options.compute, .kernels = options.kernels})
            .value();
    return engine;
  }

  static TestEngine Make(const Fixture& fixture, const ExpertRecords& experts,
                         const Options& options) {
    return Make(fixture.tensors, fixture.config,
                MemoryExpertSource::Create(experts.layout, experts.records).value(), options);
  }

  KvCache NewKv(uint32_t context) const { return KvCache::Create(model->config, context).value(); }

  // Steps one sequence and returns the wanted logits, row after row.
  std::vector<float> Step(KvCache& kv, std::span<const int32_t> tokens,
                          LogitsWanted wanted = LogitsWanted::kAll,
                          StepObserver* observer = nullptr) const {
    std::vector<float> logits;
    const SequenceInput input{&kv, tokens, wanted};
    const Status status = pass->Step(
        {&input, 1},
        [&](const LogitsRow& row) {
          logits.insert(logits.end(), row.logits.begin(), row.logits.end());
          return Status::Ok();
        },
        [](uint32_t) { return Status::Ok(); }, observer);
    PICCHIO_CHECK(status.ok());
    return logits;
  }
};

}  // namespace picchio
