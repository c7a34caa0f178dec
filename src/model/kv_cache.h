// The keys and values of one sequence, F32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "kernels/attention.h"
#include "model/config.h"

namespace picchio {

// Layers that see everything keep a row for every position of the context; sliding layers a ring of
// their window and kSlidingChunk - 1 rows more, so that short rewinds are free. Longer ones go back
// to a checkpoint: a copy of the windows as they were at a position, kept here. What positions hold
// is a function of the tokens up to them alone, so that whatever was rewound, resized or copied
// yields the same bits as a cache that was filled anew. Rows lie head by head:
// [num_key_value_heads, capacity, head_dim]. Move-only; one thread at a time writes, any number
// read.
class KvCache {
 public:
  // How many rows may be appended to a sliding layer before attention over the first of them.
  static constexpr uint32_t kSlidingChunk = 128;

  // Bytes of a cache for `context` positions, 1 <= context <= ModelConfig::kMaxPositions, with as
  // many checkpoints as it may keep.
  static uint64_t BytesFor(const ModelConfig& config, uint32_t context);

  // Fails with kResourceExhausted, giving the figures, where the system has no such memory;
  // kInvalidArgument for a context of 0 or beyond ModelConfig::kMaxPositions.
  static Result<KvCache> Create(const ModelConfig& config, uint32_t context);

  uint32_t context() const { return context_; }
  uint32_t length() const { return length_; }  // Positions held: [0, length).
  uint64_t bytes() const;                      // As BytesFor.

  // Changes the context to no fewer positions than are held; layer by layer, so that no more than
  // one layer is there twice. Fails as Create does; all that was held still is.
  Status Resize(uint32_t context);

  // A cache for `context` positions that holds the first Reachable(position), no more than
  // `context`, of this one. Fails as Create does.
  Result<KvCache> CopyPrefix(uint32_t position, uint32_t context) const;

  // Keeps a copy of the windows before `position`, which Reachable says are there, for going back
  // to it later. Of more than BytesFor reckons with, the one goes that lies nearest behind another;
  // never the newest. Does nothing where no layer slides.
  void KeepCheckpoint(uint32_t position);
  // The highest position with a checkpoint, 0 without.
  uint32_t last_checkpoint() const {
    return checkpoints_.empty() ? 0 : checkpoints_.back().position;
  }

  // Where Rewind(position) would go: `position` or length() where their windows are whole, else the
  // nearest checkpoint before, else 0.
  uint32_t Reachable(uint32_t position) const;
  // Drops what lies behind Reachable(position), which it returns. What follows is as if later
  // positions had never been. After a step that ended midway Rewind(length()) makes the cache fit
  // for use again.
  uint32_t Rewind(uint32_t position);

  // --- For the forward pass: write rows, attend, and commit when all layers have been through. ---

  // Fails where `count` more positions do not fit the context, or where the windows before the next
  // one are lost (a step of more than kSlidingChunk positions that ended midway has written over
  // them).
  Status CheckRoom(uint32_t count) const;
  // How many rows of one step can be written to the layer before attention over the first of them.
  uint32_t ChunkOf(uint32_t layer) const;
  // Writes the key and the value of one position; each [num_key_value_heads * head_dim].
  void Write(uint32_t layer, uint32_t position, const float* key, const float* value);
  KvView View(uint32_t layer, uint32_t kv_head) const;
  void Commit(uint32_t count) { length_ += count; }

 private:
  struct Layer {
    uint32_t window = 0;  // 0: all
    uint32_t capacity = 0;
    AlignedBuffer rows;  // Keys, then values, each [num_key_value_heads, capacity, head_dim].
  };
  struct Checkpoint {
    uint32_t position = 0;
    std::vector<float> rows;  // Of all sliding layers.
  };

  KvCache() = default;

  uint32_t WindowStart(uint32_t position) const;
  bool WindowIsWhole(uint32_t position) const;
  size_t max_checkpoints() const;
  // Copies positions [begin, end) of a layer to where they are in a layer of another capacity.
  void CopyRows(const Layer& from, Layer& to, uint32_t begin, uint32_t end) const;
  // Calls visit(layer, offset in its rows, offset in a checkpoint's) for each key and each value of
  // the sliding layers' windows before `position`.
  template <typename Visit>
  void ForEachWindowRow(uint32_t position, Visit&& visit) const;
  const Checkpoint* CheckpointAt(uint32_t position) const;
  void Restore(const Checkpoint& checkpoint);
  void DropCheckpointsOverLimit(uint32_t newest);

  std::vector<Layer> layers_;
  uint32_t num_heads_ = 0;
  uint32_t head_dim_ = 0;
  uint32_t context_ = 0;
  uint32_t window_ = 0;  // Of all sliding layers; 0 if there are none.
  uint32_t length_ = 0;
  uint32_t valid_from_ = 0;              // First position that the rings still hold.
  std::vector<Checkpoint> checkpoints_;  // By ascending position, none beyond length_.
};

}  // namespace picchio
