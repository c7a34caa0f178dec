#include "model/kv_cache.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"

namespace picchio {
namespace {

uint32_t CapacityOf(const LayerConfig& layer, uint32_t context) {
  if (layer.sliding_window == 0) return context;
  return std::min(context, layer.sliding_window + KvCache::kSlidingChunk - 1);
}

}  // namespace

uint64_t KvCache::BytesFor(const ModelConfig& config, uint32_t context) {
  uint64_t rows = 0;
  for (const LayerConfig& layer : config.layers) rows += 2 * uint64_t{CapacityOf(layer, context)};
  return rows * config.key_value_size() * sizeof(float);
}

Result<KvCache> KvCache::Create(const ModelConfig& config, uint32_t context) {
  if (context == 0 || context > ModelConfig::kMaxPositions) {
    return Error(Code::kInvalidArgument, "a context of {} positions, expected 1 to {}", context,
                 ModelConfig::kMaxPositions);
  }
  static std::atomic<uint64_t> next_id{1};
  KvCache cache;
  cache.id_ = next_id++;
  cache.num_heads_ = config.num_key_value_heads;
  cache.head_dim_ = config.head_dim;
  cache.context_ = context;
  const uint64_t bytes = BytesFor(config, context);
  auto buffer = AlignedBuffer::Allocate(bytes, 64);
  if (!buffer.has_value()) {
    return Error(
        Code::kResourceExhausted,
        "no memory for the keys and values of {} positions ({} bytes); try a smaller context",
        context, bytes);
  }
  cache.buffer_ = std::move(buffer).value();
  float* next = cache.buffer_.as<float>().data();
  for (const LayerConfig& config_layer : config.layers) {
    Layer& layer = cache.layers_.emplace_back();
    layer.window = config_layer.sliding_window;
    layer.capacity = CapacityOf(config_layer, context);
    const size_t floats = size_t{layer.capacity} * config.key_value_size();
    layer.keys = next;
    layer.values = next + floats;
    next += 2 * floats;
    if (layer.window == 0) continue;
    PICCHIO_CHECK(cache.window_ == 0 || cache.window_ == layer.window);
    cache.window_ = layer.window;
    ++cache.num_sliding_;
  }
  return cache;
}

uint32_t KvCache::WindowStart(uint32_t position) const {
  return position + 1 > window_ ? position + 1 - window_ : 0;
}

template <typename Copy>
void KvCache::ForEachWindowRow(uint32_t position, Copy&& copy) const {
  size_t offset = 0;
  for (const Layer& layer : layers_) {
    if (layer.window == 0) continue;
    for (uint32_t head = 0; head < num_heads_; ++head) {
      for (uint32_t p = WindowStart(position); p < position; ++p) {
        const size_t row = (size_t{head} * layer.capacity + p % layer.capacity) * head_dim_;
        copy(layer.keys + row, offset);
        copy(layer.values + row, offset + head_dim_);
        offset += 2 * size_t{head_dim_};
      }
    }
  }
}

KvCache::Snapshot KvCache::TakeSnapshot() const {
  Snapshot snapshot;
  snapshot.cache_id_ = id_;
  snapshot.epoch_ = epoch_;
  snapshot.position_ = length_;
  if (num_sliding_ == 0) return snapshot;
  const size_t rows = size_t{num_sliding_} * num_heads_ * (length_ - WindowStart(length_));
  snapshot.rows_.resize(2 * rows * head_dim_);
  ForEachWindowRow(length_, [&](const float* row, size_t offset) {
    std::memcpy(snapshot.rows_.data() + offset, row, head_dim_ * sizeof(float));
  });
  return snapshot;
}

uint64_t KvCache::MaxSnapshotBytes() const {
  if (num_sliding_ == 0) return 0;
  const uint64_t rows = std::min(window_ - 1, context_);
  return 2 * rows * num_sliding_ * num_heads_ * head_dim_ * sizeof(float);
}

bool KvCache::CanRestore(const Snapshot& snapshot) const {
  if (snapshot.cache_id_ != id_ || snapshot.position_ > length_) return false;
  const auto later =
      std::upper_bound(cuts_.begin(), cuts_.end(), snapshot.epoch_,
                       [](uint64_t epoch, const Cut& cut) { return epoch < cut.epoch; });
  return later == cuts_.end() || later->position >= snapshot.position_;
}

Status KvCache::Restore(const Snapshot& snapshot) {
  if (!CanRestore(snapshot)) {
    return Error(Code::kInvalidArgument,
                 "the snapshot of position {} is not of this sequence as it is now (length {})",
                 snapshot.position_, length_);
  }
  CutAt(snapshot.position_);
  if (num_sliding_ > 0) {
    ForEachWindowRow(length_, [&](float* row, size_t offset) {
      std::memcpy(row, snapshot.rows_.data() + offset, head_dim_ * sizeof(float));
    });
    valid_from_ = WindowStart(length_);
  }
  return Status::Ok();
}

bool KvCache::CanRewind(uint32_t position) const {
  if (position > length_) return false;
  return position == 0 || num_sliding_ == 0 || WindowStart(position) >= valid_from_;
}

Status KvCache::Rewind(uint32_t position) {
  if (!CanRewind(position)) {
    return Error(Code::kInvalidArgument,
                 "cannot go back to position {} of {}: the windows of the sliding layers are gone; "
                 "restore a snapshot or begin again",
                 position, length_);
  }
  CutAt(position);
  if (position == 0) valid_from_ = 0;
  return Status::Ok();
}

void KvCache::CutAt(uint32_t position) {
  while (!cuts_.empty() && cuts_.back().position >= position) cuts_.pop_back();
  cuts_.push_back({++epoch_, position});
  length_ = position;
}

Status KvCache::CheckRoom(uint32_t count) const {
  if (count > context_ - length_) {
    return Error(Code::kInvalidArgument,
                 "{} more tokens after {} do not fit the context of {} positions", count, length_,
                 context_);
  }
  if (!CanRewind(length_)) {
    return Error(
        Code::kInvalidArgument,
        "the windows of the sliding layers before position {} are gone; restore a snapshot or "
        "begin again",
        length_);
  }
  return Status::Ok();
}

uint32_t KvCache::ChunkOf(uint32_t layer) const {
  return layers_[layer].window == 0 ? context_ : kSlidingChunk;
}

void KvCache::Write(uint32_t layer_idx, uint32_t position, const float* key, const float* value) {
  const Layer& layer = layers_[layer_idx];
  for (uint32_t head = 0; head < num_heads_; ++head) {
    const size_t row = (size_t{head} * layer.capacity + position % layer.capacity) * head_dim_;
    std::memcpy(layer.keys + row, key + size_t{head} * head_dim_, head_dim_ * sizeof(float));
    std::memcpy(layer.values + row, value + size_t{head} * head_dim_, head_dim_ * sizeof(float));
  }
  if (layer.window != 0 && position >= layer.capacity) {
    valid_from_ = std::max(valid_from_, position - layer.capacity + 1);
  }
}

KvView KvCache::View(uint32_t layer_idx, uint32_t kv_head) const {
  const Layer& layer = layers_[layer_idx];
  const size_t first = size_t{kv_head} * layer.capacity * head_dim_;
  return {.k = layer.keys + first,
          .v = layer.values + first,
          .row_stride = head_dim_,
          .capacity = layer.capacity};
}

}  // namespace picchio
