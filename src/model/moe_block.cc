#include "model/moe_block.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/router.h"

namespace picchio {
namespace {

// Rows that are computed together at most: bounds the memory for what lies between the two
// products, and is enough for them to be worth cutting up.
constexpr size_t kMaxBatchRows = 256;

// Rows whose next experts are predicted: of more, the union is what nobody has slots for.
constexpr size_t kMaxForeseenRows = 8;

// A span that asks for so much of a layer will ask for as much of the next.
bool IsNearlyAll(size_t num_chosen, size_t num_experts) {
  return 8 * num_chosen >= 7 * num_experts;
}

template <typename T>
const T* PartOf(std::span<const std::byte> record, const RecordPart& part) {
  return reinterpret_cast<const T*>(record.data() + part.offset);
}

// A matrix of a record. `scales` is unused for BF16.
WeightMatrix MatrixOf(PayloadKind kind, std::span<const std::byte> record,
                      const RecordPart& weights, const RecordPart& scales, size_t rows,
                      size_t cols) {
  switch (kind) {
    case PayloadKind::kInt4:
      return Int4Matrix{PartOf<uint8_t>(record, weights), PartOf<float>(record, scales), rows,
                        cols};
    case PayloadKind::kMxfp4:
      return Mxfp4Matrix{PartOf<uint8_t>(record, weights), PartOf<uint8_t>(record, scales), rows,
                         cols};
    case PayloadKind::kBf16:
      break;
  }
  return Bf16Matrix{PartOf<uint16_t>(record, weights), rows, cols};
}

ActivationKind ActivationsFor(PayloadKind kind) {
  return kind == PayloadKind::kMxfp4 ? ActivationKind::kForMxfp4 : ActivationKind::kForInt4;
}

}  // namespace

Status MoeBlock::CheckLayout(const ModelConfig& config, const ExpertRecordLayout& layout) {
  if (layout.hidden_size != config.hidden_size ||
      layout.intermediate_size != config.moe_intermediate_size) {
    return Error(
        Code::kCorrupt,
        "the experts are of a model with hidden size {} and expert width {}, config.json says "
        "{} and {}",
        layout.hidden_size, layout.intermediate_size, config.hidden_size,
        config.moe_intermediate_size);
  }
  if (layout.gate_up_bias.bytes != 0 && !config.expert_bias) {
    return Error(Code::kCorrupt, "the experts have biases, which {} has not",
                 ArchitectureName(config.architecture));
  }
  const PayloadKind kind = layout.kind;
  if (kind != PayloadKind::kInt4 && kind != PayloadKind::kMxfp4 && kind != PayloadKind::kBf16) {
    return Error(Code::kUnsupported, "experts of payload kind {} are not supported",
                 static_cast<int>(kind));
  }
  for (const RecordPart* part : {&layout.gate_up, &layout.gate_up_scales, &layout.down,
                                 &layout.down_scales, &layout.gate_up_bias, &layout.down_bias}) {
    if (part->offset % sizeof(float) != 0) {
      return Error(
          Code::kUnsupported,
          "experts of hidden size {} and width {}: their parts are not at multiples of 4 bytes",
          layout.hidden_size, layout.intermediate_size);
    }
  }
  return Status::Ok();
}

MoeBlock::MoeBlock(const ModelConfig& config, const ExpertRecordLayout& layout, Compute compute,
                   size_t max_rows, Carver& carver)
    : layout_(layout),
      num_experts_(config.num_experts),
      experts_per_token_(config.experts_per_token),
      hidden_size_(config.hidden_size),
      intermediate_size_(config.moe_intermediate_size),
      quantized_(compute == Compute::kInt8 && layout.kind != PayloadKind::kBf16),
      max_batch_rows_(std::min(max_rows * config.experts_per_token, kMaxBatchRows)) {
  const size_t max_slots = max_rows * experts_per_token_;
  normed_ = carver.Take<float>(max_rows * hidden_size_);
  router_logits_ = carver.Take<float>(max_rows * num_experts_);
  ids_ = carver.Take<uint32_t>(max_slots);
  weights_ = carver.Take<float>(max_slots);
  ahead_normed_ = carver.Take<float>(std::min(max_rows, kMaxForeseenRows) * hidden_size_);
  ahead_logits_ = carver.Take<float>(std::min(max_rows, kMaxForeseenRows) * num_experts_);
  ahead_ids_.resize(experts_per_token_);
  ahead_weights_.resize(experts_per_token_);
  row_of_slot_ = carver.Take<uint32_t>(max_slots);
  slot_of_ = carver.Take<uint32_t>(max_slots);
  outputs_ = carver.Take<float>(max_slots * hidden_size_);
  gate_up_ = carver.Take<float>(max_batch_rows_ * 2 * intermediate_size_);
  activated_ = carver.Take<float>(max_batch_rows_ * intermediate_size_);
  if (quantized_) {
    const ActivationKind kind = ActivationsFor(layout.kind);
    quantized_normed_ = carver.TakeQuantized(kind, hidden_size_, max_rows);
    quantized_gathered_ = carver.TakeQuantized(kind, hidden_size_, max_batch_rows_);
    quantized_activated_ = carver.TakeQuantized(kind, intermediate_size_, max_batch_rows_);
    gathered_ = nullptr;
  } else {
    gathered_ = carver.Take<float>(max_batch_rows_ * hidden_size_);
  }
}

Status MoeBlock::Run(StepContext& step, uint32_t layer, const LayerWeights& weights,
                     const LayerWeights* next, ExpertCache& cache, float* x) {
  pieces_.clear();
  batch_rows_ = 0;
  not_finite_ = kNone;
  step.Norm(x, weights.post_attention_norm, normed_);
  PICCHIO_RETURN_IF_ERROR(Route(step, layer, weights));
  Assign(step);
  JudgePrediction(layer);

  // From here on the misses are on their way; what else there is to do comes before waiting for
  // them.
  ExpertCache::Fetch fetch = cache.Begin(static_cast<int>(layer), experts_);
  bool look_ahead = next != nullptr && cache.num_prefetch_slots() > 0;
  if (quantized_) step.Quantize(normed_, quantized_normed_);
  while (true) {
    if (look_ahead && fetch.all_submitted()) {
      LookAhead(step, layer, *next, cache, x);
      look_ahead = false;
    }
    const auto waited = cache.wait();
    const auto ready = fetch.Next();
    storage_wait_ += cache.wait() - waited;
    if (!ready.has_value()) return ready.error();
    if (ready->empty()) break;
    for (const ExpertCache::Ready& expert : *ready) AddPieces(step, weights, expert);
    ComputeBatch(step);
  }
  AddUp(step, layer, x);
  if (const uint32_t expert = not_finite_; expert != kNone) {
    return Error(Code::kCorrupt, "layer {} expert {}: what it yields is not finite", layer, expert);
  }
  return Status::Ok();
}

Status MoeBlock::Route(StepContext& step, uint32_t layer, const LayerWeights& weights) {
  const Product product = step.ProductOf(weights.router, normed_, {}, router_logits_, num_experts_);
  step.products.Run({&product, 1});
  const RouterWeights kind = step.config.norm_topk_prob ? RouterWeights::kSoftmaxOverChosen
                                                        : RouterWeights::kSoftmaxOverAll;
  std::atomic<bool> finite = true;
  step.ForRows([&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row) {
      const float* logits = router_logits_ + row * num_experts_;
      if (!step.kernels.all_finite(logits, num_experts_)) {
        finite = false;
        continue;
      }
      RouteTopK({logits, num_experts_}, kind, {ids_ + row * experts_per_token_, experts_per_token_},
                {weights_ + row * experts_per_token_, experts_per_token_});
    }
  });
  if (!finite) {
    return Error(Code::kCorrupt, "layer {}: the router's output is not finite", layer);
  }
  if (step.observer != nullptr) {
    const size_t n = step.num_rows * experts_per_token_;
    step.observer->OnRouting(layer, {router_logits_, step.num_rows * num_experts_}, {ids_, n},
                             {weights_, n});
  }
  return Status::Ok();
}

void MoeBlock::LookAhead(StepContext& step, uint32_t layer, const LayerWeights& next,
                         ExpertCache& cache, const float* x) {
  foreseen_.clear();
  if (step.num_rows > kMaxForeseenRows) {
    if (!IsNearlyAll(experts_.size(), num_experts_)) return;
    for (size_t expert = 0; expert < num_experts_; ++expert) {
      foreseen_.push_back(static_cast<int32_t>(expert));
    }
  } else {
    step.Norm(x, next.post_attention_norm, ahead_normed_);
    const Product product =
        step.ProductOf(next.router, ahead_normed_, {}, ahead_logits_, num_experts_);
    step.products.Run({&product, 1});
    // A guess about what is not finite is not worth an error: the layer itself will say so.
    if (!step.kernels.all_finite(ahead_logits_, step.num_rows * num_experts_)) return;
    for (size_t row = 0; row < step.num_rows; ++row) {
      RouteTopK({ahead_logits_ + row * num_experts_, num_experts_},
                RouterWeights::kSoftmaxOverChosen, ahead_ids_, ahead_weights_);
      foreseen_.insert(foreseen_.end(), ahead_ids_.begin(), ahead_ids_.end());
    }
    foreseen_layer_ = layer + 1;
  }
  cache.Prefetch(static_cast<int>(layer + 1), foreseen_);
}

void MoeBlock::JudgePrediction(uint32_t layer) {
  if (std::exchange(foreseen_layer_, UINT32_MAX) != layer) return;
  num_foreseeable_ += experts_.size();
  num_foreseen_ += static_cast<uint64_t>(std::ranges::count_if(experts_, [this](int32_t expert) {
    return std::ranges::find(foreseen_, expert) != foreseen_.end();
  }));
}

void MoeBlock::Assign(const StepContext& step) {
  const size_t n = step.num_rows * experts_per_token_;
  counts_.assign(num_experts_, 0);
  for (size_t i = 0; i < n; ++i) ++counts_[ids_[i]];
  experts_.clear();
  assignments_.clear();
  uint32_t first = 0;
  for (size_t expert = 0; expert < num_experts_; ++expert) {
    const uint32_t count = counts_[expert];
    counts_[expert] = first;  // From here on, where the expert's next slot is.
    if (count == 0) continue;
    experts_.push_back(static_cast<int32_t>(expert));
    assignments_.push_back({first, count});
    first += count;
  }
  for (size_t i = 0; i < n; ++i) {
    const uint32_t slot = counts_[ids_[i]]++;
    slot_of_[i] = slot;
    row_of_slot_[slot] = static_cast<uint32_t>(i / experts_per_token_);
  }
}

void MoeBlock::AddPieces(StepContext& step, const LayerWeights& weights,
                         const ExpertCache::Ready& ready) {
  const auto index = static_cast<size_t>(ready.index);
  const auto expert = static_cast<size_t>(experts_[index]);
  Piece piece;
  piece.expert = static_cast<uint32_t>(expert);
  piece.gate_up = MatrixOf(layout_.kind, ready.record, layout_.gate_up, layout_.gate_up_scales,
                           2 * intermediate_size_, hidden_size_);
  piece.down = MatrixOf(layout_.kind, ready.record, layout_.down, layout_.down_scales, hidden_size_,
                        intermediate_size_);
  piece.gate_up_bias = nullptr;
  piece.down_bias = nullptr;
  if (layout_.gate_up_bias.bytes != 0) {
    piece.gate_up_bias = PartOf<float>(ready.record, layout_.gate_up_bias);
    piece.down_bias = PartOf<float>(ready.record, layout_.down_bias);
  } else if (weights.gate_up_biases != nullptr) {
    piece.gate_up_bias = weights.gate_up_biases + expert * 2 * intermediate_size_;
    piece.down_bias = weights.down_biases + expert * hidden_size_;
  }
  const Assignment& assignment = assignments_[index];
  for (size_t done = 0; done < assignment.num_slots;) {
    if (batch_rows_ == max_batch_rows_) ComputeBatch(step);
    piece.first_slot = assignment.first_slot + done;
    piece.num_slots = std::min(assignment.num_slots - done, max_batch_rows_ - batch_rows_);
    piece.first_batch_row = batch_rows_;
    pieces_.push_back(piece);
    batch_rows_ += piece.num_slots;
    done += piece.num_slots;
  }
}

F32Rows MoeBlock::InputRows(const Piece& piece) {
  const uint32_t* rows = row_of_slot_ + piece.first_slot;
  if (rows[piece.num_slots - 1] - rows[0] + 1 == piece.num_slots) {
    return {normed_ + rows[0] * hidden_size_, piece.num_slots, hidden_size_};
  }
  float* out = gathered_ + piece.first_batch_row * hidden_size_;
  for (size_t i = 0; i < piece.num_slots; ++i) {
    std::memcpy(out + i * hidden_size_, normed_ + rows[i] * hidden_size_,
                hidden_size_ * sizeof(float));
  }
  return {out, piece.num_slots, hidden_size_};
}

QuantizedRows MoeBlock::QuantizedInputRows(const Piece& piece) {
  const uint32_t* rows = row_of_slot_ + piece.first_slot;
  if (rows[piece.num_slots - 1] - rows[0] + 1 == piece.num_slots) {
    return quantized_normed_.Slice(rows[0], piece.num_slots);
  }
  const QuantizedRows out = quantized_gathered_.Slice(piece.first_batch_row, piece.num_slots);
  const size_t row_bytes = QuantizedRows::BytesFor(out.kind(), out.cols(), 1);
  for (size_t i = 0; i < piece.num_slots; ++i) {
    std::memcpy(out.codes(i), quantized_normed_.codes(rows[i]), row_bytes);
  }
  return out;
}

void MoeBlock::ComputeBatch(StepContext& step) {
  if (pieces_.empty()) return;
  products_.clear();
  for (const Piece& piece : pieces_) {
    Product& product = products_.emplace_back();
    product.weights = &piece.gate_up;
    product.bias = piece.gate_up_bias;
    product.quantized = quantized_;
    if (quantized_) {
      product.quantized_x = QuantizedInputRows(piece);
    } else {
      product.x = InputRows(piece);
    }
    product.y = {gate_up_ + piece.first_batch_row * 2 * intermediate_size_, 2 * intermediate_size_};
  }
  step.products.Run(products_);

  const auto activate = [&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row) {
      const float* gate_up = gate_up_ + row * 2 * intermediate_size_;
      // A clamp would make an infinity look like a number.
      if (!step.kernels.all_finite(gate_up, 2 * intermediate_size_)) {
        const auto after = std::ranges::upper_bound(pieces_, row, {}, &Piece::first_batch_row);
        NoteNotFinite(std::prev(after)->expert);
      }
      float* out = activated_ + row * intermediate_size_;
      if (step.config.clamped_swiglu) {
        step.kernels.swiglu_clamped(gate_up, intermediate_size_,
                                    static_cast<float>(step.config.swiglu_limit), out);
      } else {
        step.kernels.swiglu(gate_up, intermediate_size_, out);
      }
      if (quantized_) {
        step.kernels.quantize({out, 1, intermediate_size_}, quantized_activated_.Slice(row, 1));
      }
    }
  };
  // A token's handful of rows is done before another thread has woken up.
  constexpr size_t kAloneElements = 1 << 14;
  if (batch_rows_ * intermediate_size_ <= kAloneElements) {
    activate(0, batch_rows_, 0);
  } else {
    step.pool.ParallelFor(batch_rows_, 1, activate);
  }

  products_.clear();
  for (const Piece& piece : pieces_) {
    Product& product = products_.emplace_back();
    product.weights = &piece.down;
    product.bias = piece.down_bias;
    product.quantized = quantized_;
    if (quantized_) {
      product.quantized_x = quantized_activated_.Slice(piece.first_batch_row, piece.num_slots);
    } else {
      product.x = {activated_ + piece.first_batch_row * intermediate_size_, piece.num_slots,
                   intermediate_size_};
    }
    product.y = {outputs_ + piece.first_slot * hidden_size_, hidden_size_};
  }
  step.products.Run(products_);
  pieces_.clear();
  batch_rows_ = 0;
}

void MoeBlock::NoteNotFinite(uint32_t expert) {
  uint32_t lowest = not_finite_;
  while (expert < lowest && !not_finite_.compare_exchange_weak(lowest, expert)) {
  }
}

void MoeBlock::AddUp(StepContext& step, uint32_t layer, float* x) {
  if (step.observer != nullptr) observed_.resize(step.num_rows * hidden_size_);
  step.ForRows([&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row) {
      const uint32_t* slots = slot_of_ + row * experts_per_token_;
      const float* weights = weights_ + row * experts_per_token_;
      for (size_t rank = 0; rank < experts_per_token_; ++rank) {
        if (!step.kernels.all_finite(outputs_ + slots[rank] * hidden_size_, hidden_size_)) {
          NoteNotFinite(ids_[row * experts_per_token_ + rank]);
        }
      }
      float* y = outputs_ + slots[0] * hidden_size_;
      step.kernels.scale(weights[0], y, hidden_size_, y);
      for (size_t rank = 1; rank < experts_per_token_; ++rank) {
        step.kernels.add_scaled(weights[rank], outputs_ + slots[rank] * hidden_size_, hidden_size_,
                                y);
      }
      if (step.observer != nullptr) std::copy_n(y, hidden_size_, &observed_[row * hidden_size_]);
      step.kernels.add(y, hidden_size_, x + row * hidden_size_);
    }
  });
  if (step.observer != nullptr) step.observer->OnMlp(layer, observed_);
}

}  // namespace picchio
