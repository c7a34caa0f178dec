#include "model/attention_block.h"

#include <algorithm>

#include "base/units.h"

namespace picchio {

size_t QueryHeadsTogether(size_t num_pairs, size_t group, int num_threads) {
  for (size_t parts = 1; parts < group; ++parts) {
    if (group % parts == 0 && num_pairs * parts >= static_cast<size_t>(num_threads)) {
      return group / parts;
    }
  }
  return 1;
}

AttentionBlock::AttentionBlock(const ModelConfig& config, size_t max_rows, int num_threads,
                               Carver& carver) {
  const size_t group = config.num_attention_heads / config.num_key_value_heads;
  // Whole cache lines, so that threads do not share one.
  scratch_floats_ = RoundUp(AttentionScratchFloats(group, config.head_dim), 16);
  normed_ = carver.Take<float>(max_rows * config.hidden_size);
  q_ = carver.Take<float>(max_rows * config.query_size());
  k_ = carver.Take<float>(max_rows * config.key_value_size());
  v_ = carver.Take<float>(max_rows * config.key_value_size());
  attended_ = carver.Take<float>(max_rows * config.query_size());
  cos_ = carver.Take<float>(max_rows * config.head_dim / 2);
  sin_ = carver.Take<float>(max_rows * config.head_dim / 2);
  scratch_ = carver.Take<float>(static_cast<size_t>(num_threads) * scratch_floats_);
  quantized_input_ = carver.TakeQuantized(ActivationKind::kForInt8, config.hidden_size, max_rows);
  quantized_attended_ =
      carver.TakeQuantized(ActivationKind::kForInt8, config.query_size(), max_rows);
}

void AttentionBlock::Begin(StepContext& step, const RopeTable& rope) {
  const size_t half = step.config.head_dim / 2;
  step.ForRows([&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row) {
      rope.CosSin(step.PositionOf(row), cos_ + row * half, sin_ + row * half);
    }
  });
}

void AttentionBlock::Run(StepContext& step, uint32_t layer, const LayerWeights& weights,
                         const float* x, float* y) {
  Project(step, weights, x);
  NormAndRotate(step, weights);
  Attend(step, layer, weights);
  Product product =
      step.ProductOf(weights.o, attended_, quantized_attended_, y, step.config.hidden_size);
  if (product.quantized) step.Quantize(attended_, quantized_attended_);
  step.products.Run({&product, 1});
  if (step.observer != nullptr) {
    const ModelConfig& config = step.config;
    step.observer->OnAttention(layer, {q_, step.num_rows * config.query_size()},
                               {k_, step.num_rows * config.key_value_size()},
                               {v_, step.num_rows * config.key_value_size()},
                               {y, step.num_rows * config.hidden_size});
  }
}

void AttentionBlock::Project(StepContext& step, const LayerWeights& weights, const float* x) {
  const ModelConfig& config = step.config;
  step.Norm(x, weights.input_norm, normed_);
  const Product products[] = {
      step.ProductOf(weights.q, normed_, quantized_input_, q_, config.query_size()),
      step.ProductOf(weights.k, normed_, quantized_input_, k_, config.key_value_size()),
      step.ProductOf(weights.v, normed_, quantized_input_, v_, config.key_value_size())};
  if (products[0].quantized || products[1].quantized || products[2].quantized) {
    step.Quantize(normed_, quantized_input_);
  }
  step.products.Run(products);
}

void AttentionBlock::NormAndRotate(StepContext& step, const LayerWeights& weights) {
  const ModelConfig& config = step.config;
  const size_t d = config.head_dim;
  const auto one = [&](float* heads, size_t num_heads, const float* norm, size_t row) {
    if (norm != nullptr) {
      step.kernels.rms_norm({heads, num_heads, d}, d, norm, static_cast<float>(config.rms_norm_eps),
                            {heads, d});
    }
    step.kernels.rope(heads, num_heads, d, cos_ + row * d / 2, sin_ + row * d / 2);
  };
  step.ForRows([&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row) {
      one(q_ + row * config.query_size(), config.num_attention_heads, weights.q_norm, row);
      one(k_ + row * config.key_value_size(), config.num_key_value_heads, weights.k_norm, row);
    }
  });
}

void AttentionBlock::Attend(StepContext& step, uint32_t layer, const LayerWeights& weights) {
  const ModelConfig& config = step.config;
  const size_t d = config.head_dim;
  const size_t kv_size = config.key_value_size();
  const size_t group = config.num_attention_heads / config.num_key_value_heads;
  const uint32_t window = config.layers[layer].sliding_window;
  const float scale = AttentionScale(d);

  const auto attend = [&](size_t row, size_t first_head, size_t num_heads, int thread_idx) {
    const uint32_t position = step.PositionOf(row);
    const auto kv_head = static_cast<uint32_t>(first_head / group);
    AttentionTask task;
    task.q = q_ + row * config.query_size() + first_head * d;
    task.num_heads = num_heads;
    task.head_dim = d;
    task.first_position = window != 0 && position >= window ? position - window + 1 : 0;
    task.position = position;
    task.scale = scale;
    task.sinks = weights.sinks == nullptr ? nullptr : weights.sinks + first_head;
    task.kv = step.sequences[step.sequence_of_row[row]].kv->View(layer, kv_head);
    task.out = attended_ + row * config.query_size() + first_head * d;
    step.kernels.attention(task, scratch_ + static_cast<size_t>(thread_idx) * scratch_floats_);
  };

  // A sliding layer's ring has no room for a whole span: rows go in by rounds, each attended before
  // the next. A full layer takes all of them at once.
  for (size_t done = 0;;) {
    round_.clear();
    size_t longest = 0;
    for (const SequenceRows& sequence : step.sequences) {
      const size_t chunk = sequence.kv->ChunkOf(layer);
      const size_t begin = std::min(done, sequence.num_rows);
      const size_t end = begin + std::min(chunk, sequence.num_rows - begin);
      for (size_t i = begin; i < end; ++i) {
        const size_t row = sequence.first_row + i;
        sequence.kv->Write(layer, step.PositionOf(row), k_ + row * kv_size, v_ + row * kv_size);
        round_.push_back(static_cast<uint32_t>(row));
      }
      longest = std::max(longest, chunk);
    }
    if (round_.empty()) return;
    // Head by head, so that threads near each other in the loop share keys and values.
    const size_t n = round_.size();
    const size_t together =
        QueryHeadsTogether(n * config.num_key_value_heads, group, step.pool.num_threads());
    step.pool.ParallelFor(n * (config.num_attention_heads / together),
                          std::max<size_t>(1, std::min<size_t>(8, n / 8)),
                          [&](size_t begin, size_t end, int thread_idx) {
                            for (size_t i = begin; i < end; ++i)
                              attend(round_[i % n], i / n * together, together, thread_idx);
                          });
    done += longest;
  }
}

}  // namespace picchio
