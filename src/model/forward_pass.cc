#include "model/forward_pass.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <variant>

#include "kernels/rows.h"

namespace picchio {
namespace {

using Clock = std::chrono::steady_clock;

// Adds the time until it goes to a total.
class Timer {
 public:
  explicit Timer(std::chrono::nanoseconds& total) : total_(total) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { total_ += Clock::now() - begin_; }

 private:
  std::chrono::nanoseconds& total_;
  const Clock::time_point begin_ = Clock::now();
};

// Embeddings are never in the experts' formats.
void DecodeEmbedding(const WeightMatrix& embedding, size_t token, std::span<float> out) {
  if (const auto* bf16 = std::get_if<Bf16Matrix>(&embedding)) {
    DecodeRow(*bf16, token, out);
  } else if (const auto* f32 = std::get_if<F32Matrix>(&embedding)) {
    DecodeRow(*f32, token, out);
  } else {
    DecodeRow(std::get<Int8Matrix>(embedding), token, out);
  }
}

}  // namespace

ForwardPass::Buffers::Buffers(const ModelConfig& config, size_t max_rows, Carver& carver)
    : hidden(carver.Take<float>(max_rows * config.hidden_size)),
      added(carver.Take<float>(max_rows * config.hidden_size)),
      head_normed(carver.Take<float>(kHeadRows * config.hidden_size)),
      logits(carver.Take<float>(kHeadRows * config.vocab_size)) {}

uint64_t ForwardPass::WorkingBytes(const ModelConfig& config, const ExpertRecordLayout& layout,
                                   const Options& options, int num_threads) {
  Carver carver(nullptr);
  const Buffers buffers(config, options.max_rows, carver);
  const AttentionBlock attention(config, options.max_rows, num_threads, carver);
  const MoeBlock moe(config, layout, options.compute, options.max_rows, carver);
  const DenseMlp dense_mlp(config, options.max_rows, carver);
  return carver.bytes();
}

Result<std::unique_ptr<ForwardPass>> ForwardPass::Create(const Model& model, ExpertCache& experts,
                                                         ThreadPool& pool, const Options& options) {
  PICCHIO_RETURN_IF_ERROR(MoeBlock::CheckLayout(model.config, experts.layout()));
  if (options.max_rows == 0 || options.max_rows > ModelConfig::kMaxPositions) {
    return Error(Code::kInvalidArgument, "steps of up to {} tokens, expected 1 to {}",
                 options.max_rows, ModelConfig::kMaxPositions);
  }
  const uint64_t bytes = WorkingBytes(model.config, experts.layout(), options, pool.num_threads());
  auto memory = AlignedBuffer::Allocate(bytes, 64);
  if (!memory.has_value()) {
    return Error(Code::kResourceExhausted,
                 "no memory for steps of up to {} tokens ({} bytes); try a shorter span",
                 options.max_rows, bytes);
  }
  const Carver carver(memory->data());
  return std::unique_ptr<ForwardPass>(
      new ForwardPass(model, experts, pool, options, std::move(memory).value(), carver));
}

// Members take their places in the order of their declaration, which is that of WorkingBytes.
ForwardPass::ForwardPass(const Model& model, ExpertCache& experts, ThreadPool& pool,
                         const Options& options, AlignedBuffer memory, Carver carver)
    : model_(model),
      experts_(experts),
      options_(options),
      memory_(std::move(memory)),
      buffers_(model.config, options.max_rows, carver),
      attention_(model.config, options.max_rows, pool.num_threads(), carver),
      moe_(model.config, experts.layout(), options.compute, options.max_rows, carver),
      dense_mlp_(model.config, options.max_rows, carver),
      step_{.config = model.config,
            .kernels = options.kernels != nullptr ? *options.kernels : BestKernels(),
            .pool = pool,
            .products =
                ProductRunner(options.kernels != nullptr ? *options.kernels : BestKernels(), pool),
            .compute = options.compute,
            .sequences = {},
            .sequence_of_row = {}} {
  PICCHIO_CHECK(carver.bytes() == memory_.size());
}

Status ForwardPass::Step(std::span<const SequenceInput> sequences,
                         FunctionRef<Status(const LogitsRow&)> receive) {
  return Step(sequences, receive, [](uint32_t) { return Status::Ok(); });
}

Status ForwardPass::Step(std::span<const SequenceInput> sequences,
                         FunctionRef<Status(const LogitsRow&)> receive,
                         FunctionRef<Status(uint32_t)> before_layer, StepObserver* observer) {
  PICCHIO_RETURN_IF_ERROR(CheckInput(sequences));
  EnableDenormals();
  const Timer timer(stats_.total);
  ++stats_.steps;
  step_.observer = observer;
  step_.sequences.clear();
  step_.sequence_of_row.clear();
  for (const SequenceInput& input : sequences) {
    const auto index = static_cast<uint32_t>(step_.sequences.size());
    step_.sequences.push_back({input.kv, index, step_.sequence_of_row.size(), input.tokens.size()});
    step_.sequence_of_row.insert(step_.sequence_of_row.end(), input.tokens.size(), index);
  }
  step_.num_rows = step_.sequence_of_row.size();
  stats_.rows += step_.num_rows;

  Embed(sequences);
  attention_.Begin(step_, model_.rope);
  for (uint32_t layer = 0; layer < model_.config.num_hidden_layers; ++layer) {
    PICCHIO_RETURN_IF_ERROR(before_layer(layer));
    DropLeaving(sequences);
    if (step_.num_rows == 0) return Status::Ok();
    PICCHIO_RETURN_IF_ERROR(RunLayer(layer));
  }
  DropLeaving(sequences);
  PICCHIO_RETURN_IF_ERROR(RunHead(sequences, receive, before_layer));
  for (const SequenceRows& sequence : step_.sequences) {
    sequence.kv->Commit(static_cast<uint32_t>(sequence.num_rows));
  }
  return Status::Ok();
}

Status ForwardPass::CheckInput(std::span<const SequenceInput> sequences) const {
  size_t rows = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const SequenceInput& input = sequences[i];
    if (input.tokens.empty()) {
      return Error(Code::kInvalidArgument, "sequence {} of the step has no tokens", i);
    }
    rows += input.tokens.size();
    if (rows > options_.max_rows) {
      return Error(Code::kInvalidArgument, "a step of more than {} tokens", options_.max_rows);
    }
    for (size_t t = 0; t < input.tokens.size(); ++t) {
      const int32_t token = input.tokens[t];
      if (token < 0 || static_cast<uint32_t>(token) >= model_.config.vocab_size) {
        return Error(Code::kInvalidArgument,
                     "token {} of sequence {} is {}, which is not in the vocabulary of {}", t, i,
                     token, model_.config.vocab_size);
      }
    }
    PICCHIO_RETURN_IF_ERROR(input.kv->CheckRoom(static_cast<uint32_t>(input.tokens.size())));
    for (size_t j = 0; j < i; ++j) PICCHIO_CHECK(sequences[j].kv != input.kv);
  }
  return Status::Ok();
}

void ForwardPass::Embed(std::span<const SequenceInput> sequences) {
  const size_t hidden = model_.config.hidden_size;
  float* out = buffers_.hidden;
  for (const SequenceInput& input : sequences) {
    for (const int32_t token : input.tokens) {
      DecodeEmbedding(model_.weights.embedding, static_cast<size_t>(token), {out, hidden});
      out += hidden;
    }
  }
}

void ForwardPass::DropLeaving(std::span<const SequenceInput> sequences) {
  const size_t hidden = model_.config.hidden_size;
  const size_t num_rows = step_.num_rows;
  step_.num_rows = 0;
  size_t num_kept = 0;
  for (const SequenceRows sequence : step_.sequences) {
    const std::atomic<bool>* leave = sequences[sequence.input_idx].leave;
    if (leave != nullptr && leave->load(std::memory_order_relaxed)) continue;
    if (sequence.first_row != step_.num_rows) {
      std::copy_n(buffers_.hidden + sequence.first_row * hidden, sequence.num_rows * hidden,
                  buffers_.hidden + step_.num_rows * hidden);
    }
    std::fill_n(step_.sequence_of_row.begin() + static_cast<ptrdiff_t>(step_.num_rows),
                sequence.num_rows, static_cast<uint32_t>(num_kept));
    SequenceRows& kept = step_.sequences[num_kept++];
    kept = sequence;
    kept.first_row = std::exchange(step_.num_rows, step_.num_rows + sequence.num_rows);
  }
  if (step_.num_rows == num_rows) return;
  step_.sequences.resize(num_kept);
  step_.sequence_of_row.resize(step_.num_rows);
  attention_.Begin(step_, model_.rope);
}

Status ForwardPass::RunLayer(uint32_t layer) {
  const LayerWeights& weights = model_.weights.layers[layer];
  const size_t hidden = model_.config.hidden_size;
  {
    const Timer timer(stats_.attention);
    attention_.Run(step_, layer, weights, buffers_.hidden, buffers_.added);
    step_.ForRows([&](size_t begin, size_t end, int) {
      step_.kernels.add(buffers_.added + begin * hidden, (end - begin) * hidden,
                        buffers_.hidden + begin * hidden);
    });
  }
  {
    const Timer timer(stats_.mlp);
    if (model_.config.layers[layer].moe) {
      const bool more = layer + 1 < model_.config.num_hidden_layers;
      const LayerWeights* next =
          more && model_.config.layers[layer + 1].moe ? &model_.weights.layers[layer + 1] : nullptr;
      PICCHIO_RETURN_IF_ERROR(moe_.Run(step_, layer, weights, next, experts_, buffers_.hidden));
    } else {
      dense_mlp_.Run(step_, layer, weights, buffers_.hidden);
    }
  }
  if (step_.observer != nullptr) {
    step_.observer->OnHidden(layer, {buffers_.hidden, step_.num_rows * hidden});
  }
  return CheckFinite(layer);
}

Status ForwardPass::CheckFinite(uint32_t layer) const {
  const size_t hidden = model_.config.hidden_size;
  for (size_t row = 0; row < step_.num_rows; ++row) {
    if (step_.kernels.all_finite(buffers_.hidden + row * hidden, hidden)) continue;
    return Error(Code::kCorrupt, "layer {}: the hidden state at position {} is not finite", layer,
                 step_.PositionOf(row));
  }
  return Status::Ok();
}

Status ForwardPass::RunHead(std::span<const SequenceInput> sequences,
                            FunctionRef<Status(const LogitsRow&)> receive,
                            FunctionRef<Status(uint32_t)> before_layer) {
  const size_t hidden = model_.config.hidden_size;
  const size_t vocab = model_.config.vocab_size;
  wanted_.clear();
  for (const SequenceRows& rows : step_.sequences) {
    const LogitsWanted logits = sequences[rows.input_idx].logits;
    if (logits == LogitsWanted::kNone) continue;
    const size_t first = logits == LogitsWanted::kLast ? rows.num_rows - 1 : 0;
    for (size_t t = first; t < rows.num_rows; ++t) wanted_.push_back(rows.first_row + t);
  }
  for (size_t first = 0; first < wanted_.size(); first += kHeadRows) {
    if (first > 0) PICCHIO_RETURN_IF_ERROR(before_layer(model_.config.num_hidden_layers));
    const size_t count = std::min(kHeadRows, wanted_.size() - first);
    {
      const Timer timer(stats_.head);
      for (size_t i = 0; i < count; ++i) {
        step_.kernels.rms_norm({buffers_.hidden + wanted_[first + i] * hidden, 1, hidden}, hidden,
                               model_.weights.norm, static_cast<float>(model_.config.rms_norm_eps),
                               {buffers_.head_normed + i * hidden, hidden});
      }
      Product product;  // Never quantised: measured losses of the argmax.
      product.weights = &model_.weights.head;
      product.x = {buffers_.head_normed, count, hidden};
      product.y = {buffers_.logits, vocab};
      step_.products.Run({&product, 1});
    }
    for (size_t i = 0; i < count; ++i) {
      const size_t row = wanted_[first + i];
      const uint32_t position = step_.PositionOf(row);
      const std::span<float> logits(buffers_.logits + i * vocab, vocab);
      if (!step_.kernels.all_finite(logits.data(), vocab)) {
        return Error(Code::kCorrupt, "the logits at position {} are not finite", position);
      }
      const size_t input_idx = step_.sequences[step_.sequence_of_row[row]].input_idx;
      PICCHIO_RETURN_IF_ERROR(receive({input_idx, position, logits}));
    }
  }
  return Status::Ok();
}

StepStats ForwardPass::stats() const {
  StepStats stats = stats_;
  stats.storage_wait = moe_.storage_wait();
  stats.mlp -= stats.storage_wait;
  stats.foreseeable = moe_.num_foreseeable();
  stats.foreseen = moe_.num_foreseen();
  return stats;
}

}  // namespace picchio
