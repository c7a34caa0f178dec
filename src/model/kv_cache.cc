#include "model/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace picchio {
namespace {

// A checkpoint takes as much as the windows: of a context no more than it needs, of a long one few.
constexpr uint32_t kPositionsPerCheckpoint = 256;
constexpr uint32_t kMinCheckpoints = 2;
constexpr uint32_t kMaxCheckpoints = 8;

uint32_t CapacityOf(uint32_t window, uint32_t context) {
  if (window == 0) return context;
  return std::min(context, window + KvCache::kSlidingChunk - 1);
}

size_t MaxCheckpointsFor(uint32_t context) {
  return std::clamp(context / kPositionsPerCheckpoint, kMinCheckpoints, kMaxCheckpoints);
}

// Rows, each of a key or of a value of all heads, that a layer takes with its checkpoints.
uint64_t RowsOf(uint32_t window, uint32_t context) {
  uint64_t rows = CapacityOf(window, context);
  if (window > 0) rows += MaxCheckpointsFor(context) * std::min(window - 1, context);
  return 2 * rows;
}

Status CheckContext(uint32_t context) {
  if (context > 0 && context <= ModelConfig::kMaxPositions) return Status::Ok();
  return Error(Code::kInvalidArgument, "a context of {} positions, expected 1 to {}", context,
               ModelConfig::kMaxPositions);
}

}  // namespace

uint64_t KvCache::BytesFor(const ModelConfig& config, uint32_t context) {
  uint64_t rows = 0;
  for (const LayerConfig& layer : config.layers) rows += RowsOf(layer.sliding_window, context);
  return rows * config.key_value_size() * sizeof(float);
}

uint64_t KvCache::bytes() const {
  uint64_t rows = 0;
  for (const Layer& layer : layers_) rows += RowsOf(layer.window, context_);
  return rows * num_heads_ * head_dim_ * sizeof(float);
}

Result<KvCache> KvCache::Create(const ModelConfig& config, uint32_t context) {
  PICCHIO_RETURN_IF_ERROR(CheckContext(context));
  KvCache cache;
  cache.num_heads_ = config.num_key_value_heads;
  cache.head_dim_ = config.head_dim;
  for (const LayerConfig& config_layer : config.layers) {
    const uint32_t window = config_layer.sliding_window;
    cache.layers_.push_back({.window = window, .capacity = 0, .rows = {}});
    if (window == 0) continue;
    PICCHIO_CHECK(cache.window_ == 0 || cache.window_ == window);
    cache.window_ = window;
  }
  PICCHIO_RETURN_IF_ERROR(cache.Resize(context));
  return cache;
}

Status KvCache::Resize(uint32_t context) {
  PICCHIO_RETURN_IF_ERROR(CheckContext(context));
  PICCHIO_CHECK(context >= length_);
  for (Layer& layer : layers_) {
    const uint32_t capacity = CapacityOf(layer.window, context);
    if (capacity == layer.capacity) continue;
    auto rows = AlignedBuffer::Allocate(
        2 * uint64_t{capacity} * num_heads_ * head_dim_ * sizeof(float), 64);
    if (!rows.has_value()) {
      return Error(
          Code::kResourceExhausted,
          "no memory for the keys and values of {} positions ({} bytes each of {} layers); try a "
          "smaller context",
          context, 2 * uint64_t{capacity} * num_heads_ * head_dim_ * sizeof(float), layers_.size());
    }
    Layer resized{.window = layer.window, .capacity = capacity, .rows = std::move(rows).value()};
    CopyRows(layer, resized, layer.window == 0 ? 0 : std::min(valid_from_, length_), length_);
    layer = std::move(resized);
  }
  context_ = context;
  DropCheckpointsOverLimit(last_checkpoint());
  return Status::Ok();
}

void KvCache::CopyRows(const Layer& from, Layer& to, uint32_t begin, uint32_t end) const {
  const size_t from_floats = size_t{from.capacity} * head_dim_;
  const size_t to_floats = size_t{to.capacity} * head_dim_;
  // Runs of positions that wrap around in neither.
  while (begin < end) {
    const uint32_t count = std::min(
        {end - begin, from.capacity - begin % from.capacity, to.capacity - begin % to.capacity});
    const float* source = from.rows.as<float>().data() + begin % from.capacity * size_t{head_dim_};
    float* target = to.rows.as<float>().data() + begin % to.capacity * size_t{head_dim_};
    for (uint32_t i = 0; i < 2 * num_heads_; ++i) {
      std::memcpy(target + i * to_floats, source + i * from_floats,
                  size_t{count} * head_dim_ * sizeof(float));
    }
    begin += count;
  }
}

Result<KvCache> KvCache::CopyPrefix(uint32_t position, uint32_t context) const {
  PICCHIO_RETURN_IF_ERROR(CheckContext(context));
  const uint32_t length = Reachable(position);
  PICCHIO_CHECK(length <= context);
  KvCache copy;
  copy.num_heads_ = num_heads_;
  copy.head_dim_ = head_dim_;
  copy.window_ = window_;
  for (const Layer& layer : layers_) {
    copy.layers_.push_back({.window = layer.window, .capacity = 0, .rows = {}});
  }
  PICCHIO_RETURN_IF_ERROR(copy.Resize(context));
  copy.length_ = length;
  for (const Checkpoint& checkpoint : checkpoints_) {
    if (checkpoint.position <= length) copy.checkpoints_.push_back(checkpoint);
  }
  const bool whole = WindowIsWhole(length);
  copy.valid_from_ = whole ? WindowStart(length) : 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i].window == 0) {
      CopyRows(layers_[i], copy.layers_[i], 0, length);
    } else if (whole) {
      CopyRows(layers_[i], copy.layers_[i], WindowStart(length), length);
    }
  }
  if (!whole && length > 0) copy.Restore(*CheckpointAt(length));
  copy.DropCheckpointsOverLimit(copy.last_checkpoint());
  return copy;
}

uint32_t KvCache::WindowStart(uint32_t position) const {
  return position + 1 > window_ ? position + 1 - window_ : 0;
}

bool KvCache::WindowIsWhole(uint32_t position) const {
  return position == 0 || window_ == 0 || WindowStart(position) >= valid_from_;
}

size_t KvCache::max_checkpoints() const { return MaxCheckpointsFor(context_); }

template <typename Visit>
void KvCache::ForEachWindowRow(uint32_t position, Visit&& visit) const {
  size_t offset = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    if (layer.window == 0) continue;
    const size_t values = size_t{num_heads_} * layer.capacity * head_dim_;
    for (uint32_t head = 0; head < num_heads_; ++head) {
      for (uint32_t p = WindowStart(position); p < position; ++p) {
        const size_t row = (size_t{head} * layer.capacity + p % layer.capacity) * head_dim_;
        visit(i, row, offset);
        visit(i, values + row, offset + head_dim_);
        offset += 2 * size_t{head_dim_};
      }
    }
  }
}

void KvCache::KeepCheckpoint(uint32_t position) {
  PICCHIO_CHECK(Reachable(position) == position);
  if (window_ == 0 || position == 0 || CheckpointAt(position) != nullptr) return;
  size_t sliding = 0;
  for (const Layer& layer : layers_) sliding += layer.window == 0 ? 0 : 1;
  Checkpoint checkpoint{.position = position, .rows = {}};
  checkpoint.rows.resize(2 * sliding * num_heads_ * (position - WindowStart(position)) * head_dim_);
  ForEachWindowRow(position, [&](size_t layer, size_t row, size_t offset) {
    std::memcpy(checkpoint.rows.data() + offset, layers_[layer].rows.as<float>().data() + row,
                head_dim_ * sizeof(float));
  });
  const auto after = std::ranges::upper_bound(checkpoints_, position, {}, &Checkpoint::position);
  checkpoints_.insert(after, std::move(checkpoint));
  DropCheckpointsOverLimit(position);
}

void KvCache::DropCheckpointsOverLimit(uint32_t newest) {
  while (checkpoints_.size() > max_checkpoints()) {
    size_t nearest = 0;
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < checkpoints_.size(); ++i) {
      const uint32_t before = i == 0 ? 0 : checkpoints_[i - 1].position;
      const uint32_t distance = checkpoints_[i].position - before;
      if (checkpoints_[i].position == newest || distance >= least) continue;
      nearest = i;
      least = distance;
    }
    checkpoints_.erase(checkpoints_.begin() + static_cast<ptrdiff_t>(nearest));
  }
}

const KvCache::Checkpoint* KvCache::CheckpointAt(uint32_t position) const {
  const auto found = std::ranges::lower_bound(checkpoints_, position, {}, &Checkpoint::position);
  return found == checkpoints_.end() || found->position != position ? nullptr : &*found;
}

void KvCache::Restore(const Checkpoint& checkpoint) {
  ForEachWindowRow(checkpoint.position, [&](size_t layer, size_t row, size_t offset) {
    std::memcpy(layers_[layer].rows.as<float>().data() + row, checkpoint.rows.data() + offset,
                head_dim_ * sizeof(float));
  });
  valid_from_ = WindowStart(checkpoint.position);
}

uint32_t KvCache::Reachable(uint32_t position) const {
  position = std::min(position, length_);
  if (WindowIsWhole(position)) return position;
  const auto after = std::ranges::upper_bound(checkpoints_, position, {}, &Checkpoint::position);
  return after == checkpoints_.begin() ? 0 : std::prev(after)->position;
}

uint32_t KvCache::Rewind(uint32_t position) {
  const uint32_t target = Reachable(position);
  if (target == 0) {
    valid_from_ = 0;
  } else if (!WindowIsWhole(target)) {
    Restore(*CheckpointAt(target));
  }
  length_ = target;
  const auto beyond = std::ranges::upper_bound(checkpoints_, target, {}, &Checkpoint::position);
  checkpoints_.erase(beyond, checkpoints_.end());
  return target;
}

Status KvCache::CheckRoom(uint32_t count) const {
  if (count > context_ - length_) {
    return Error(Code::kInvalidArgument,
                 "{} more tokens after {} do not fit the context of {} positions", count, length_,
                 context_);
  }
  if (!WindowIsWhole(length_)) {
    return Error(
        Code::kInvalidArgument,
        "the windows of the sliding layers before position {} are gone: a step that ended midway "
        "has to be rewound before the next",
        length_);
  }
  return Status::Ok();
}

uint32_t KvCache::ChunkOf(uint32_t layer) const {
  return layers_[layer].window == 0 ? context_ : kSlidingChunk;
}

void KvCache::Write(uint32_t layer_idx, uint32_t position, const float* key, const float* value) {
  Layer& layer = layers_[layer_idx];
  float* keys = layer.rows.as<float>().data();
  float* values = keys + size_t{num_heads_} * layer.capacity * head_dim_;
  for (uint32_t head = 0; head < num_heads_; ++head) {
    const size_t row = (size_t{head} * layer.capacity + position % layer.capacity) * head_dim_;
    std::memcpy(keys + row, key + size_t{head} * head_dim_, head_dim_ * sizeof(float));
    std::memcpy(values + row, value + size_t{head} * head_dim_, head_dim_ * sizeof(float));
  }
  if (layer.window != 0 && position >= layer.capacity) {
    valid_from_ = std::max(valid_from_, position - layer.capacity + 1);
  }
}

KvView KvCache::View(uint32_t layer_idx, uint32_t kv_head) const {
  const Layer& layer = layers_[layer_idx];
  const float* keys = layer.rows.as<float>().data() + size_t{kv_head} * layer.capacity * head_dim_;
  return {.k = keys,
          .v = keys + size_t{num_heads_} * layer.capacity * head_dim_,
          .row_stride = head_dim_,
          .capacity = layer.capacity};
}

}  // namespace picchio
