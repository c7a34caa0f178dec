#include "apps/plan/measure_compute.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "apps/bench/sample_statistics.h"
#include "base/human.h"
#include "base/memory_info.h"
#include "experts/null_expert_source.h"
#include "experts/slot_arena.h"
#include "model/dense_weights.h"
#include "model/forward_pass.h"
#include "model/kv_cache.h"
#include "model/model.h"

namespace picchio {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kLayers = 2;  // Sliding and full where they alternate.
constexpr uint64_t kHeadBytes = 64_MiB;
constexpr uint64_t kExpertBytes = 256_MiB;
// The first ones back memory and wake threads.
constexpr uint32_t kWarmUp = 8;
constexpr uint32_t kLeast = 16;
constexpr uint32_t kMost = 512;

ModelConfig CutDown(const ModelConfig& whole, DenseTypes types) {
  ModelConfig config = whole;
  config.num_hidden_layers = std::min(kLayers, whole.num_hidden_layers);
  config.layers.resize(config.num_hidden_layers);
  // Layers without experts are rare, and take about the time of those with.
  for (LayerConfig& layer : config.layers) layer.moe = true;
  const uint64_t row_bytes = uint64_t{config.hidden_size} * (types.int8_head ? 1 : 2);
  config.vocab_size = static_cast<uint32_t>(
      std::min<uint64_t>(whole.vocab_size, std::max<uint64_t>(kHeadBytes / row_bytes, 256)));
  return config;
}

// Keys and values of positions that nothing was computed for.
void FillUpTo(uint32_t position, const ModelConfig& config, KvCache& kv) {
  const std::vector<float> row(config.key_value_size(), 0x1p-4F);
  for (uint32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    for (uint32_t at = 0; at < position; ++at) kv.Write(layer, at, row.data(), row.data());
  }
  kv.Commit(position);
}

}  // namespace

Result<ComputeTimes> MeasureCompute(const PlannedModel& planned, const ComputeOptions& options,
                                    const std::atomic<bool>& stop) {
  const DenseTypes types{planned.types.int8_head,
                         planned.types.int8_attention || options.int8_attention};
  const ModelConfig config = CutDown(planned.config, types);
  const bool expert_biases = planned.layout.down_bias.bytes == 0;
  PICCHIO_ASSIGN_OR_RETURN(const TensorDirectory tensors, StandInDirectory(config, types));
  PICCHIO_ASSIGN_OR_RETURN(const uint64_t dense_bytes,
                           DenseWeightBytes(tensors, config, expert_biases));
  const uint64_t stride = SlotArena::StrideFor(planned.layout.record_bytes);
  const uint64_t records = uint64_t{config.num_hidden_layers} * config.num_experts;
  const uint64_t most_slots = std::max<uint64_t>(records, 2);
  const uint64_t slots = std::clamp<uint64_t>(
      kExpertBytes / stride, std::min(uint64_t{2} * config.experts_per_token, most_slots),
      most_slots);
  PICCHIO_ASSIGN_OR_RETURN(const MemoryInfo memory, ReadMemoryInfo());
  const uint32_t context = options.position + 1;
  const uint64_t needed =
      dense_bytes + slots * stride + KvCache::BytesFor(config, context) +
      ForwardPass::WorkingBytes(config, planned.layout, {.max_rows = 1}, options.num_threads);
  if (needed > memory.FreeForUs()) {
    return Error(Code::kResourceExhausted,
                 "measuring how fast this machine computes takes {} of memory, and {} are free",
                 FormatMemory(needed), FormatMemory(memory.FreeForUs()));
  }
  ThreadPool pool(options.num_threads);
  PICCHIO_ASSIGN_OR_RETURN(const Model model, Model::Open(tensors, config, expert_biases, pool));
  PICCHIO_ASSIGN_OR_RETURN(
      const auto experts, ExpertCache::Create(std::make_unique<NullExpertSource>(
                                                  planned.layout, NullExpertSource::Fill::kNothing),
                                              {.num_slots = static_cast<size_t>(slots)}));
  PICCHIO_ASSIGN_OR_RETURN(const auto forward,
                           ForwardPass::Create(model, *experts, pool, {.max_rows = 1}));
  PICCHIO_ASSIGN_OR_RETURN(KvCache kv, KvCache::Create(config, context));
  FillUpTo(options.position, config, kv);

  std::vector<double> attention;
  std::vector<double> mlp;
  std::vector<double> head;
  const Clock::time_point begin = Clock::now();
  for (uint32_t sample = 0; sample < kMost; ++sample) {
    if (stop.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "stopped");
    // Another token each time, far from the one before.
    const auto token = static_cast<int32_t>(uint64_t{sample} * 2654435761U % config.vocab_size);
    const SequenceInput input{.kv = &kv, .tokens = std::span(&token, 1)};
    const StepStats before = forward->stats();
    PICCHIO_RETURN_IF_ERROR(
        forward->Step(std::span(&input, 1), [](const LogitsRow&) { return Status::Ok(); }));
    const StepStats after = forward->stats();
    kv.Rewind(options.position);
    if (sample < kWarmUp) continue;
    attention.push_back(Seconds(after.attention - before.attention));
    mlp.push_back(Seconds(after.mlp - before.mlp));
    head.push_back(Seconds(after.head - before.head));
    if (attention.size() >= kLeast &&
        std::chrono::duration<double>(Clock::now() - begin).count() > options.seconds) {
      break;
    }
  }
  const double layers =
      static_cast<double>(planned.config.num_hidden_layers) / config.num_hidden_layers;
  const double moe_layers =
      static_cast<double>(planned.config.num_moe_layers()) / config.num_hidden_layers;
  const double rows = static_cast<double>(planned.config.vocab_size) / config.vocab_size;
  const double mlp_median = SpreadOf(std::move(mlp)).median;
  // A layer without experts waits for none: its part goes with what is always there.
  return ComputeTimes{.attention = layers * SpreadOf(std::move(attention)).median +
                                   (layers - moe_layers) * mlp_median,
                      .experts = moe_layers * mlp_median,
                      .head = rows * SpreadOf(std::move(head)).median};
}

}  // namespace picchio
