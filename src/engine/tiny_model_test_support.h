// A model of noise, small enough to run thousands of steps in a test, with its experts in memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"
#include "experts/expert_cache.h"
#include "experts/memory_expert_source.h"
#include "format/expert_record.h"
#include "model/forward_pass.h"
#include "model/model.h"

namespace picchio {

// Two layers like Qwen3's, 4 experts of which 2 per token; the first layer may have a sliding
// window.
class TinyModel {
 public:
  static constexpr uint32_t kVocabulary = 288;
  static constexpr uint32_t kHidden = 64;
  static constexpr uint32_t kInner = 32;
  static constexpr uint32_t kLayers = 2;
  static constexpr uint32_t kExperts = 4;
  static constexpr uint32_t kHeadDim = 16;
  static constexpr double kTheta = 10'000;

  explicit TinyModel(uint32_t sliding_window = 0)
      : model_{Config(sliding_window), MakeWeights(), RopeTable(kTheta, kHeadDim)}, pool_(1) {
    auto layout =
        ExpertRecordLayout::Make(PayloadKind::kBf16, RecordVersion::kV3, kHidden, kInner, false);
    PICCHIO_CHECK(layout.has_value());
    layout_ = *layout;
    experts_ = MakeCache(MakeSource());
  }

  // The same records each time.
  std::unique_ptr<ExpertSource> MakeSource() const {
    uint64_t state = 2;
    MemoryExpertSource::Records records;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      for (uint32_t expert = 0; expert < kExperts; ++expert) {
        std::vector<std::byte> record(layout_.record_bytes);
        for (size_t at = 0; at + 2 <= record.size(); at += 2) {
          const auto bits =
              static_cast<uint16_t>(std::bit_cast<uint32_t>(Noise(state) * 0.3f) >> 16);
          std::memcpy(&record[at], &bits, 2);
        }
        records.emplace(ExpertKey{static_cast<int32_t>(layer), static_cast<int32_t>(expert)},
                        std::move(record));
      }
    }
    auto source = MemoryExpertSource::Create(layout_, std::move(records));
    PICCHIO_CHECK(source.has_value());
    return std::move(source).value();
  }

  static std::unique_ptr<ExpertCache> MakeCache(std::unique_ptr<ExpertSource> source) {
    auto cache = ExpertCache::Create(std::move(source), {.num_slots = 3});
    PICCHIO_CHECK(cache.has_value());
    return std::move(cache).value();
  }

  std::unique_ptr<ForwardPass> MakeForward(ExpertCache& experts, size_t max_rows) {
    auto forward = ForwardPass::Create(model_, experts, pool_, {.max_rows = max_rows});
    PICCHIO_CHECK(forward.has_value());
    return std::move(forward).value();
  }
  std::unique_ptr<ForwardPass> MakeForward(size_t max_rows = 8) {
    return MakeForward(*experts_, max_rows);
  }

  const Model& model() const { return model_; }
  ExpertCache& experts() { return *experts_; }

 private:
  static ModelConfig Config(uint32_t sliding_window) {
    ModelConfig config;
    config.vocab_size = kVocabulary;
    config.hidden_size = kHidden;
    config.num_hidden_layers = kLayers;
    config.num_attention_heads = 4;
    config.num_key_value_heads = 2;
    config.head_dim = kHeadDim;
    config.moe_intermediate_size = kInner;
    config.num_experts = kExperts;
    config.experts_per_token = 2;
    config.max_position_embeddings = 4096;
    config.rms_norm_eps = 1e-6;
    config.norm_topk_prob = true;
    config.rope.theta = kTheta;
    config.layers.resize(kLayers);
    config.layers[0].sliding_window = sliding_window;
    return config;
  }

  static float Noise(uint64_t& state) {  // [-1, 1)
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(state >> 40) * 0x1p-23f - 1.0f;
  }

  F32Matrix NoiseMatrix(size_t rows, size_t cols, float scale) {
    std::vector<float>& values = values_.emplace_back(rows * cols);
    for (float& x : values) x = Noise(state_) * scale;
    return {.data = values.data(), .rows = rows, .cols = cols};
  }
  const float* Ones(size_t n) { return values_.emplace_back(n, 1.0f).data(); }

  DenseWeights MakeWeights() {
    DenseWeights weights;
    weights.embedding = NoiseMatrix(kVocabulary, kHidden, 1);
    weights.head = NoiseMatrix(kVocabulary, kHidden, 1);
    weights.norm = Ones(kHidden);
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      LayerWeights& w = weights.layers.emplace_back();
      w.input_norm = Ones(kHidden);
      w.post_attention_norm = Ones(kHidden);
      w.q.weights = NoiseMatrix(4 * kHeadDim, kHidden, 0.5f);
      w.k.weights = NoiseMatrix(2 * kHeadDim, kHidden, 0.5f);
      w.v.weights = NoiseMatrix(2 * kHeadDim, kHidden, 0.5f);
      w.o.weights = NoiseMatrix(kHidden, 4 * kHeadDim, 0.5f);
      w.router.weights = NoiseMatrix(kExperts, kHidden, 0.5f);
    }
    return weights;
  }

  // Declared before what is made with them.
  uint64_t state_ = 1;
  std::vector<std::vector<float>> values_;  // The inner vectors' memory stays where it is.
  Model model_;
  ThreadPool pool_;
  ExpertRecordLayout layout_;
  std::unique_ptr<ExpertCache> experts_;
};

}  // namespace picchio
